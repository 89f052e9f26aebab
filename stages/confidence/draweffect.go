package confidence

import (
	"math"

	"parsimon/schema/sizebin"
)

// A DrawEffect compares a percentile of slowdowns whose delays were drawn with the percentile if each flow
// keeps the delays that it had in the link cases of its path.
type DrawEffect struct {
	SizeBin    string
	Quantile   float64
	Drawn, Own float64 // slowdowns
}

// Relative returns the change of the percentile by the draws, as a fraction of the percentile without them.
func (e DrawEffect) Relative() float64 { return e.Drawn/e.Own - 1 }

// Name names the percentile and its flows.
func (e DrawEffect) Name() string {
	if e.SizeBin == sizebin.All {
		return quantileName(e.Quantile) + " of all flows"
	}
	return quantileName(e.Quantile) + " of flows of " + e.SizeBin
}

// An effect is reported only if drawnBeyond flows or more are beyond the percentile, and if the odds that a
// flow's own slowdown is beyond it differ by more than chanceDeviations standard deviations of the draws.
const (
	drawnBeyond      = 10
	chanceDeviations = 3
)

// DrawEffects returns the effects of draws that are not due to chance: first those for all flows, then those
// by size bin. There are none without drawn delays. Call it after Read.
func (x *Intervals) DrawEffects() (effects []DrawEffect) {
	if !x.drawn {
		return nil
	}
	bins := sizebin.Bins()
	effects = x.all.bins[sizebin.Count].drawEffects(sizebin.All)
	for b := range bins {
		effects = append(effects, x.all.bins[b].drawEffects(bins[b].Name)...)
	}
	return effects
}

// drawEffects returns the effects for the flows of a group.
func (g *intervalGroup) drawEffects(name string) (effects []DrawEffect) {
	if g.flows == 0 {
		return nil
	}
	drawn := g.counts.accumulate(nil)
	own := g.inCases.accumulate(nil)
	flows := float64(g.flows)
	for _, q := range Quantiles {
		at := drawn.cellOfAll(q)
		beyond := flows - float64(own.upTo(min(at, len(own)-1), &unweighted))
		ratio := beyond / (flows - beyond) / ((1 - q) / q)
		chance := chanceDeviations / math.Sqrt(flows*q*(1-q))
		if flows*(1-q) >= drawnBeyond && math.Abs(math.Log(ratio)) > chance {
			effects = append(effects, DrawEffect{
				SizeBin: name, Quantile: q,
				Drawn: cells.Slowdown(at, 0.5),
				Own:   cells.Slowdown(own.cellOfAll(q), 0.5),
			})
		}
	}
	return effects
}
