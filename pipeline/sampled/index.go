package sampled

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/sampling"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages"
)

// maxLabels is how many services have intervals of their own, and how many virtual networks: the first by flow.
const maxLabels = 64

// A Key is a group of flows; Bin is sizebin.Count for all sizes.
type Key struct {
	By    stages.GroupBy
	Label string
	Bin   int
}

// An index describes the whole workload, without an estimate.
type index struct {
	fine         []sampling.Slot // as short as slots can be
	slots        []sampling.Slot
	totals       map[Key]int64 // flows
	order        []Key         // all flows by size bin, all flows, then labels in the order in which they first come
	longestBytes int64
	bytesOf      [64]int64 // bytes of flows of 2^(i-1) to 2^i bytes, at i
	labels       map[stages.GroupBy]map[string]bool
	pairs        map[[2]string]*pair // of service and virtual network
	last         *pair
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
	x, err := readCut(ctx, base, sampling.NewCutter(g.Flows/maxSlots))
	if err == nil {
		x.fine, x.slots = x.slots, nil
	}
	return x, err
}

func readCut(ctx context.Context, base *pipeline.Estimation, cutter *sampling.Cutter) (*index, error) {
	x := &index{totals: map[Key]int64{}, pairs: map[[2]string]*pair{},
		labels: map[stages.GroupBy]map[string]bool{stages.ByService: {}, stages.ByVNet: {}}}
	in, err := base.Read(schema.Flows, nil, nil)
	if err != nil {
		return nil, err
	}
	x.addLabel(stages.ByNothing, "")
	err = columns.Each(in, func(f *flow) error {
		cutter.Add(f.StartNS, f.Bytes)
		x.longestBytes = max(x.longestBytes, f.Bytes)
		x.bytesOf[bits.Len64(uint64(f.Bytes))] += f.Bytes
		x.pair(f.Service, f.VNet).flows[sizebin.Of(f.Bytes)]++
		return ctx.Err()
	}, "fct_ns", "slowdown")
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
	services, vnets := x.label(stages.ByService, service), x.label(stages.ByVNet, vnet)
	for bin := range p.groups {
		of := []Key{{stages.ByNothing, "", bin}, {stages.ByNothing, "", sizebin.Count}}
		if services {
			of = append(of, Key{stages.ByService, service, bin}, Key{stages.ByService, service, sizebin.Count})
		}
		if vnets {
			of = append(of, Key{stages.ByVNet, vnet, sizebin.Count})
		}
		p.groups[bin] = of
	}
	return p
}

// label reports whether a label has groups of its own.
func (x *index) label(by stages.GroupBy, label string) bool {
	known := x.labels[by]
	if !known[label] && len(known) < maxLabels {
		known[label] = true
		x.addLabel(by, label)
	}
	return known[label]
}

func (x *index) addLabel(by stages.GroupBy, label string) {
	for bin := range sizebin.Count + 1 {
		if by != stages.ByVNet || bin == sizebin.Count {
			x.order = append(x.order, Key{by, label, bin})
		}
	}
}

func (x *index) groups(service, vnet string, bytes int64) []Key {
	return x.pair(service, vnet).groups[sizebin.Of(bytes)]
}

// all is the group of all flows.
var all = Key{stages.ByNothing, "", sizebin.Count}

// warmupState has a name of its own for every change of the windows, and of the test.
var warmupState = "warmup-5-" + pipeline.WindowsVersion() + ".json"

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
// workload's bytes in halves, as a power of two in ms. It is for queues and congestion windows to settle: flows that
// began earlier are carried over.
func (x *index) firstWarmupNS(slowestBps int64) int64 {
	half, below := int64(0), int64(0)
	for _, bytes := range x.bytesOf {
		half += bytes / 2
	}
	for size, bytes := range x.bytesOf {
		if below += bytes; below >= half && bytes > 0 {
			takes := int64(math.Exp2(float64(size)) * 2e9 / float64(slowestBps))
			return min(maxWarmup, minWarmup<<max(0, bits.Len64(uint64(takes/minWarmup))-1))
		}
	}
	return minWarmup
}

// measureWarmup finds the warm-up, the slots and their design: it estimates the first round, and the first window of
// every other stratum with half of the warm-up.
func (s *sampler) measureWarmup(ctx context.Context) error {
	g, err := s.base.Generated()
	if err != nil {
		return err
	}
	path := lake.Of(s.base.ID()).StatePath("sampling", s.base.Variant().String(), warmupState)
	slowest, _ := s.base.Network.HostBps()
	next := s.index.firstWarmupNS(slowest)
	if found, err := s.base.Lake.ReadState(path, &s.warmup); err == nil && found {
		if s.warmup.settled(s.ask) {
			s.cut(g)
			return nil
		}
		next = 2 * s.warmup.NS
	}
	for s.warmup.NS = next; ; s.warmup.NS *= 2 {
		s.cut(g)
		first := s.design.Drawn(s.design.First())
		if s.share(first, s.warmup.NS) > wholeShare || s.warmup.NS > maxWarmup {
			s.warmup.Effect = nil
			return nil
		}
		if err := s.measure(ctx, first); err != nil {
			return err
		}
		if s.warmup.settled(s.ask) {
			return s.base.Executor().Session().WriteState(path, s.warmup)
		}
	}
}

func (s *sampler) cut(g pipeline.Generated) {
	slots := (g.LastStartNS - g.FirstStartNS) / (slotWarmups * s.warmup.NS)
	s.index.cut(max(minSlotFlows, g.Flows/max(1, min(slots, maxSlots))))
	s.design = sampling.NewDesign(s.index.slots, s.base.Spec.Seed, loadWarmups*s.warmup.NS)
}

// measure compares estimates of the same windows with the warm-up and with half of it. The error of a warm-up that
// falls by half or more with each doubling is at most what the last doubling changed. Half of it costs less than half
// of what twice as long does.
func (s *sampler) measure(ctx context.Context, first []int) error {
	var some []int
	for h := 0; h < len(s.design.Strata); h += 2 {
		some = append(some, s.design.Strata[h][0])
	}
	slices.Sort(some)
	whole, err := s.estimated(ctx, first, s.warmup.NS)
	if err != nil {
		return err
	}
	half, err := s.estimated(ctx, some, s.warmup.NS/2)
	if err != nil {
		return err
	}
	var halves, wholes []*sampling.Counts
	for _, n := range some {
		halves, wholes = append(halves, half[n][all]), append(wholes, whole[n][all])
	}
	s.warmup.Windows, s.warmup.Effect = len(some), effects(halves, wholes)
	log := s.base.Log.Info().Dur("warmup", time.Duration(s.warmup.NS))
	for _, m := range s.warmup.Effect {
		log = log.Floats64(percentileName(m.Quantile), []float64{round4(m.Error), round4(m.ErrorLo), round4(m.ErrorHi)})
	}
	log.Msg("effect of half the warm-up")
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
func effects(halves, wholes []*sampling.Counts) (out []Effect) {
	half, whole, flows := sampling.Stratum{Slots: math.MaxInt}, sampling.Stratum{Slots: math.MaxInt}, int64(0)
	for i, c := range wholes {
		if n := c.Flows(); n > 0 {
			half.Drawn, whole.Drawn = append(half.Drawn, halves[i]), append(whole.Drawn, c)
			flows += n
		}
	}
	for _, p := range pipeline.Quantiles {
		d, ok := sampling.Compare(sampling.Sample{whole}, sampling.Sample{half}, p, 0.95)
		if !ok || len(half.Drawn) < 2 || float64(flows)*(1-p) < fewMeasured {
			break // and of the greater ones fewer
		}
		out = append(out, Effect{Quantile: p, Flows: flows, Error: d.Change, ErrorLo: d.Lo, ErrorHi: d.Hi})
	}
	return out
}
