package sampling

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/schema/sizebin"
	"parsimon/stages/confidence"
)

// maxLabels is how many services have intervals of their own, and how many virtual networks: the first by flow.
const maxLabels = 64

// A Key is a group of flows; Bin is sizebin.Count for all sizes.
type Key struct {
	By    confidence.GroupBy
	Label string
	Bin   int
}

// An index describes the whole workload, without an estimate.
type index struct {
	fine         []Slot // as short as slots can be
	slots        []Slot
	totals       map[Key]int64 // flows
	order        []Key         // all flows by size bin, all flows, then labels in the order in which they first come
	remarks      []string      // about the flows
	longestBytes int64
	bytesOf      [64]int64 // bytes of flows of 2^(i-1) to 2^i bytes, at i
	// Of every pathEvery-th flow with a path: bytes, and bytes times the round trip of the idle path in ns.
	routed, roundTrips float64
	labels             map[confidence.GroupBy]map[string]bool
	pairs              map[[2]string]*pair // of service and virtual network
	last               *pair
}

// A pair describes the flows of a service in a virtual network.
type pair struct {
	service, vnet string
	groups        [sizebin.Count][]Key // of a flow of a size bin
	flows         [sizebin.Count]int64
}

// readIndex reads table flows once. cut cuts what it read.
func readIndex(ctx context.Context, base *pipeline.Estimation) (*index, error) {
	g, err := base.Generated()
	if err != nil {
		return nil, err
	}
	x, err := readCut(ctx, base, NewCutter(g.Flows/maxSlots))
	if err == nil {
		x.fine, x.slots = x.slots, nil
		x.remarks = names.Of(g.Notes, func(note string) string { return "flows: " + note })
	}
	return x, err
}

func readCut(ctx context.Context, base *pipeline.Estimation, cutter *Cutter) (*index, error) {
	x := &index{totals: map[Key]int64{}, pairs: map[[2]string]*pair{},
		labels: map[confidence.GroupBy]map[string]bool{confidence.ByService: {}, confidence.ByVNet: {}}}
	in, err := base.Read(schema.Flows)
	if err != nil {
		return nil, err
	}
	x.addLabel(confidence.ByNothing, "")
	row := 0
	err = columns.Each(in, func(f *flow) error {
		if row++; row%pathEvery == 0 {
			if path, err := base.Router.Path(f.ID, f.Src, f.Dst, nil); err == nil {
				x.routed += float64(f.SizeBytes)
				for _, l := range path {
					x.roundTrips += 2 * float64(f.SizeBytes) * float64(base.Network.Links[l].DelayNS)
				}
			}
		}
		cutter.Add(f.StartNS, f.SizeBytes)
		x.longestBytes = max(x.longestBytes, f.SizeBytes)
		x.bytesOf[bits.Len64(uint64(f.SizeBytes))] += f.SizeBytes
		x.pair(f.Service, f.VNet).flows[sizebin.Of(f.SizeBytes)]++
		return ctx.Err()
	})
	for _, p := range x.pairs {
		for bin, flows := range p.flows {
			for _, k := range p.groups[bin] {
				x.totals[k] += flows
			}
		}
	}
	x.slots = cutter.Slots()
	return x, err
}

// cut cuts the workload into slots of so many flows.
func (x *index) cut(flows int64) {
	x.slots = nil
	for _, f := range x.fine {
		n := len(x.slots) - 1
		if n < 0 || x.slots[n].Flows >= max(1, flows) {
			x.slots = append(x.slots, f)
			continue
		}
		s := &x.slots[n]
		s.ToNS, s.Flows, s.Bytes = f.ToNS, s.Flows+f.Flows, s.Bytes+f.Bytes
	}
}

// pair is that of a service and a virtual network, whose texts need not outlive the call.
func (x *index) pair(service, vnet string) *pair {
	if p := x.last; p != nil && p.service == service && p.vnet == vnet {
		return p
	}
	p := x.pairs[[2]string{service, vnet}]
	if p == nil {
		p = x.newPair(strings.Clone(service), strings.Clone(vnet))
		x.pairs[[2]string{p.service, p.vnet}] = p
	}
	x.last = p
	return p
}

// newPair gives labels groups of their own, unless there are too many.
func (x *index) newPair(service, vnet string) *pair {
	p := &pair{service: service, vnet: vnet}
	services, vnets := x.label(confidence.ByService, service), x.label(confidence.ByVNet, vnet)
	for bin := range p.groups {
		of := []Key{{confidence.ByNothing, "", bin}, {confidence.ByNothing, "", sizebin.Count}}
		if services {
			of = append(of, Key{confidence.ByService, service, bin}, Key{confidence.ByService, service, sizebin.Count})
		}
		if vnets {
			of = append(of, Key{confidence.ByVNet, vnet, sizebin.Count})
		}
		p.groups[bin] = of
	}
	return p
}

// label reports whether a label has groups of its own.
func (x *index) label(by confidence.GroupBy, label string) bool {
	known := x.labels[by]
	if !known[label] && len(known) < maxLabels {
		known[label] = true
		x.addLabel(by, label)
	}
	return known[label]
}

func (x *index) addLabel(by confidence.GroupBy, label string) {
	for bin := range sizebin.Count + 1 {
		if by != confidence.ByVNet || bin == sizebin.Count {
			x.order = append(x.order, Key{by, label, bin})
		}
	}
}

func (x *index) groups(service, vnet string, bytes int64) []Key {
	return x.pair(service, vnet).groups[sizebin.Of(bytes)]
}

// all is the group of all flows.
var all = Key{confidence.ByNothing, "", sizebin.Count}

const (
	minWarmup = int64(1e6)
	maxWarmup = int64(1024e6)
	// An asked percentile is settled if half of the warm-up changes it by less than this, or than this share of the asked
	// precision.
	warmupTolerance = 0.0025
	warmupShare     = 0.25
	// A cool-down is so many warm-ups. Flows of the window that last longer are alone in the end, and too fast.
	cooldown = 1
	// A slot takes slotWarmups warm-ups on average. Load changes slowly: a longer window costs more and says little more,
	// and the warm-up of a shorter one says nothing.
	slotWarmups = 1
	// The load of a slot is that of so many warm-ups before its end. On the large network it explains 24% of the variance
	// of the slots' flows beyond p99, and 46% beyond p90; the slot's own load explains 1% and 6%.
	loadWarmups = 12
	// minSlotFlows in each of the first round's windows are enough for p99.
	minSlotFlows = 200
	maxSlots     = 100_000
	pathEvery    = 64
	// DCTCP averages marks over 16 round trips. With round trips of 180 us, p99 of windows with a warm-up of 11 of them
	// was 3.8% below that of the same flows in the whole, and with one of 44, 0.9%.
	warmupRoundTrips = 64
)

// A Warmup is how long windows are warmed up, and what half as long changes.
type Warmup struct {
	NS      int64    `json:"warmup_ns"`
	Windows int      `json:"windows"` // measured with half of the warm-up; 0: none, the whole is estimated
	Effect  []Effect `json:"effect"`  // of half of the warm-up instead of the warm-up
}

// change is the effect on a quantile that the interval is widened by: 0 if it is not significant.
func (w Warmup) change(q float64) float64 {
	for _, m := range w.Effect {
		if m.Quantile == q && (m.ErrorLo > 0 || m.ErrorHi < 0) {
			return math.Abs(m.Error)
		}
	}
	return 0
}

// settled reports whether half of the warm-up changes nothing that matters for the ask.
func (w Warmup) settled(a Ask) bool {
	tolerance := max(warmupTolerance, warmupShare*a.Within)
	return !slices.ContainsFunc(a.Of, func(q float64) bool { return w.change(q) > tolerance })
}

// firstWarmupNS is a quarter of the time in which the slowest host sends a flow of the size that divides the
// workload's bytes in halves, or warmupRoundTrips, whichever is longer, as a power of two in ms. It is for queues and
// congestion windows to settle: flows that began earlier are carried over.
func (x *index) firstWarmupNS(slowestBps int64) int64 {
	half, below := int64(0), int64(0)
	for _, bytes := range x.bytesOf {
		half += bytes / 2
	}
	for size, bytes := range x.bytesOf {
		if below += bytes; below >= half && bytes > 0 {
			takes := int64(math.Exp2(float64(size)) * 2e9 / float64(slowestBps))
			takes = max(takes, int64(warmupRoundTrips*x.roundTrips/max(1, x.routed)))
			return min(maxWarmup, minWarmup<<max(0, bits.Len64(uint64(takes/minWarmup))-1))
		}
	}
	return minWarmup
}

// measureWarmup finds the warm-up, the slots and their design: it estimates the least windows of a first round, and the
// same with half of the warm-up.
func (s *sampler) measureWarmup(ctx context.Context) error {
	g, err := s.base.Generated()
	if err != nil {
		return err
	}
	slowest, _ := s.base.Network.HostBps()
	for s.warmup.NS = s.index.firstWarmupNS(slowest); ; s.warmup.NS *= 2 {
		slots := (g.LastStartNS - g.FirstStartNS) / (slotWarmups * s.warmup.NS)
		s.index.cut(max(minSlotFlows, g.Flows/max(1, min(slots, maxSlots))))
		s.full = NewDesign(s.index.slots, s.base.Spec.Seed, loadWarmups*s.warmup.NS)
		least := s.full.Merged(4)
		some := least.Drawn(least.First())
		first := some // with a budget: the whole may take too long
		if s.design = s.full; s.ask.Budget == 0 {
			first = s.full.Drawn(s.full.First())
		}
		if s.share(first, s.warmup.NS) > wholeShare || s.warmup.NS > maxWarmup {
			return nil
		}
		s.design = least
		if err := s.measure(ctx, some); err != nil || s.warmup.settled(s.ask) {
			return err
		}
		s.warmup.Effect = nil
	}
}

// measure compares estimates of the same windows with the warm-up and with half of it. The error of a warm-up that
// falls by half or more with each doubling is at most what the last doubling changed. Half of it costs less than half
// of what twice as long does.
func (s *sampler) measure(ctx context.Context, some []int) error {
	whole, err := s.estimated(ctx, some, s.warmup.NS)
	if err != nil {
		return err
	}
	half, err := s.estimated(ctx, some, s.warmup.NS/2)
	if err != nil {
		return err
	}
	halves := names.Of(some, func(n int) *Counts { return half[n][all] })
	wholes := names.Of(some, func(n int) *Counts { return whole[n][all] })
	s.warmup.Windows, s.warmup.Effect = len(some), effects(halves, wholes)
	s.base.Log.Info().Dur("warmup", time.Duration(s.warmup.NS)).Any("effects", s.warmup.Effect).Msg("half of the warm-up")
	return nil
}

func (s *sampler) estimated(ctx context.Context, slots []int, warmupNS int64) (map[int]counts, error) {
	r, err := s.estimate(ctx, slots, warmupNS)
	if err != nil {
		return nil, err
	}
	x, err := s.read(ctx, r)
	return x.found, err
}

// fewMeasured is the least number of measured flows beyond a percentile for its error to be reported.
const fewMeasured = 10

// An Effect is what half of the warm-up changes in a percentile.
type Effect struct {
	Quantile float64 `json:"quantile"`
	Flows    int64   `json:"flows"`
	Error    float64 `json:"error"`    // with half of the warm-up / with the warm-up - 1
	ErrorLo  float64 `json:"error_lo"` // 95% interval over the windows
	ErrorHi  float64 `json:"error_hi"`
}

// effects are the errors of the percentiles of all windows together, whose flows have slowdowns with half of the
// warm-up and with the whole.
func effects(halves, wholes []*Counts) (out []Effect) {
	half, whole, flows := Stratum{Slots: math.MaxInt}, Stratum{Slots: math.MaxInt}, int64(0)
	for i, c := range wholes {
		if n := c.Flows(); n > 0 {
			half.Drawn, whole.Drawn = append(half.Drawn, halves[i]), append(whole.Drawn, c)
			flows += n
		}
	}
	for _, p := range pipeline.Quantiles {
		d, ok := compareSamples(Sample{whole}, Sample{half}, p, 0.95)
		if !ok || len(half.Drawn) < 2 || float64(flows)*(1-p) < fewMeasured {
			break // and of the greater ones fewer
		}
		out = append(out, Effect{Quantile: p, Flows: flows, Error: d.Change, ErrorLo: d.Lo, ErrorHi: d.Hi})
	}
	return out
}
