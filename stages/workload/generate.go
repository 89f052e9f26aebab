package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
)

// A Workload describes flows to generate, as the paper does (§4.1): services, each with a rack
// matrix, a size distribution and log-normal inter-arrivals, and a total rate that brings the most
// loaded link to MaxLoad.
type Workload struct {
	Services []Service
	// MaxLoad is the load of the most loaded link that all services together are expected to make:
	// payload bits per second over the link's bandwidth; above 0.
	MaxLoad float64
	// DurationNS ends the workload before that time, or Flows after that many. One of them is set.
	DurationNS int64
	Flows      int64
}

// A Service is one network-wide arrival process of flows.
type Service struct {
	Name string // label of its flows; services have different names
	VNet string // virtual network it belongs to; may be empty
	// Matrix has a row and a column for each rack of Network.Racks, or of Racks where set; nil
	// means each rack to every other alike.
	Matrix *Matrix
	Sizes  *SizeCDF
	Sigma  float64 // shape of the log-normal inter-arrivals, 0 (none: one every so often) to 8
	Share  float64 // of all bytes, relative to the other services; above 0
	Racks  []int   // places in Network.Racks that the service is confined to; nil for all
	// Hosts that the service is confined to, ascending; nil for all. Racks without any are left out:
	// Matrix has a row and a column for each of the others.
	Hosts []int32
	// Pairs, instead of Matrix and Racks, are the senders and receivers of the service, host by host:
	// each pair gets as much as every other. Nil for racks.
	Pairs [][2]int32
	// Poisson makes the inter-arrivals exponential instead of log-normal; Sigma is then 0.
	Poisson bool
	// TwinOf is another service whose random numbers this one draws too: with the same sizes,
	// inter-arrivals and share it has the same flows at the same moments, between its own hosts.
	// Empty for numbers of its own.
	TwinOf string
}

// A Plan is what a workload comes to on a network, before the first flow is drawn.
type Plan struct {
	// ServiceFlowsPerSecond is the mean rate of each service.
	ServiceFlowsPerSecond []float64
	// BytesPerSecond is the mean rate of all services' bytes.
	BytesPerSecond float64
	// LinkLoad is the expected load of each link, by id: 0 to MaxLoad.
	LinkLoad []float64
	// MaxLink is the link expected to be most loaded (the first of them), MaxLoad its load.
	MaxLink int32
	MaxLoad float64
	// UnreachableShare of the bytes goes between hosts that no path joins.
	UnreachableShare float64

	services []servicePlan
}

type servicePlan struct {
	racks [][]int32
	cells aliasTable
	gapNS interface{ Draw(s *rng.Stream) float64 }
}

// NewPlan checks a workload and works out its rates, exactly: by ExpectedLoads, not by trying. The
// weight from a rack of a single host to itself is left out, since a flow needs two hosts.
func NewPlan(r *topology.Router, w *Workload) (*Plan, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	p := &Plan{LinkLoad: make([]float64, len(r.Net.Links)), ServiceFlowsPerSecond: make([]float64, len(w.Services))}
	shares := 0.0
	for _, s := range w.Services {
		shares += s.Share
	}
	for i := range w.Services {
		s := &w.Services[i]
		sp, weight, sum, err := planService(r.Net, s)
		if err != nil {
			return nil, fmt.Errorf("service %q: %w", s.Name, err)
		}
		p.services = append(p.services, sp)
		e, err := r.ExpectedLoads(sp.racks, weight)
		if err != nil {
			return nil, fmt.Errorf("service %q: %w", s.Name, err)
		}
		for l, x := range e.Share {
			p.LinkLoad[l] += s.Share / shares * x / sum * 8 / float64(r.Net.Links[l].BandwidthBps)
		}
		p.UnreachableShare += s.Share / shares * e.Unreachable / sum
	}
	// So far: loads at one byte a second in all.
	for l, x := range p.LinkLoad {
		if x > p.LinkLoad[p.MaxLink] {
			p.MaxLink = int32(l)
		}
	}
	most := p.LinkLoad[p.MaxLink]
	if most == 0 {
		return nil, errors.New("no flow of the workload would cross a link: no path joins the hosts that exchange traffic")
	}
	p.BytesPerSecond = w.MaxLoad / most
	for l := range p.LinkLoad {
		p.LinkLoad[l] *= p.BytesPerSecond
	}
	p.MaxLoad = p.LinkLoad[p.MaxLink]
	for i := range w.Services {
		s := &w.Services[i]
		rate := p.BytesPerSecond * (s.Share / shares) / s.Sizes.Mean()
		p.ServiceFlowsPerSecond[i] = rate
		if s.Poisson {
			p.services[i].gapNS = Exponential{1e9 / rate}
		} else {
			p.services[i].gapNS = NewLogNormal(1e9/rate, s.Sigma)
		}
	}
	return p, nil
}

func (w *Workload) check() error {
	if len(w.Services) == 0 {
		return errors.New("the workload has no service")
	}
	seen, twinnable := map[string]bool{}, map[string]bool{}
	for _, s := range w.Services {
		twinnable[s.Name] = s.TwinOf == ""
	}
	for i, s := range w.Services {
		bad := func(format string, args ...any) error {
			return fmt.Errorf("service %d (%q): %s", i+1, s.Name, fmt.Sprintf(format, args...))
		}
		switch {
		case seen[s.Name]:
			return bad("another service has the same name")
		case s.TwinOf != "" && !twinnable[s.TwinOf]:
			return bad("is a twin of %q, which is no service, or a twin itself", s.TwinOf)
		case s.Pairs != nil && (s.Matrix != nil || s.Racks != nil):
			return bad("has host pairs, and so neither a matrix nor racks")
		case s.Poisson && s.Sigma != 0:
			return bad("has exponential inter-arrivals, and so no sigma")
		case s.Sizes == nil:
			return bad("has no size distribution")
		case !(s.Sigma >= 0 && s.Sigma <= 8):
			return bad("sigma is %v, must be 0 to 8", s.Sigma)
		case !(s.Share > 0) || s.Share > 1e9:
			return bad("share is %v, must be above 0", s.Share)
		}
		seen[s.Name] = true
	}
	switch {
	case !(w.MaxLoad > 0) || w.MaxLoad > 1e3:
		return fmt.Errorf("max_load is %v, must be above 0", w.MaxLoad)
	case w.DurationNS < 0 || w.Flows < 0 || (w.DurationNS > 0) == (w.Flows > 0):
		return fmt.Errorf("the workload needs a duration (%d ns) or a number of flows (%d), and not both", w.DurationNS, w.Flows)
	}
	return nil
}

// planService lays out for drawing who of a service sends to whom.
func planService(n *topology.Network, s *Service) (sp servicePlan, weight func(i, j int) float64, sum float64, err error) {
	if s.Pairs != nil {
		sp.racks, weight, err = pairGroups(n, s.Pairs)
	} else {
		sp.racks, weight, err = rackGroups(n, s)
	}
	if err != nil {
		return sp, nil, 0, err
	}
	var cells []rackPair
	var weights []float64
	for i := range sp.racks {
		for j := range sp.racks {
			if x := weight(i, j); x > 0 {
				cells = append(cells, rackPair{int32(i), int32(j)})
				weights = append(weights, x)
				sum += x
			}
		}
	}
	if sum == 0 {
		return sp, nil, 0, errors.New("no two hosts exchange traffic")
	}
	sp.cells = newAliasTable(cells, weights, sum)
	return sp, weight, sum, nil
}

// GenerateStats says what was generated.
type GenerateStats struct {
	Plan                      *Plan
	Flows, Bytes              int64
	ServiceFlows              []int64 // by service
	ServiceBytes              []int64
	FirstStartNS, LastStartNS int64 // 0 if there is no flow
}

// Generate draws the workload's flows and writes them as table flows, in order of start and with
// ids from 0. Every service starts at time 0 and its first flow comes after the first gap; the
// services' flows are merged, and where two start in the same ns the earlier in that ns comes first
// (then the earlier in the list). The numbers of a flow are drawn from a stream of its own, keyed by
// (seed, service name, place in the service), the name being the other one's for a twin: adding a service, or asking for more flows, changes
// none of the others but for their ids.
func Generate(ctx context.Context, n *topology.Network, r *topology.Router, w *Workload, seed uint64, out schema.Sink) (GenerateStats, error) {
	stats := GenerateStats{ServiceFlows: make([]int64, len(w.Services)), ServiceBytes: make([]int64, len(w.Services))}
	if r.Net != n {
		return stats, errors.New("generate: the router is not of this network")
	}
	plan, err := NewPlan(r, w)
	if err != nil {
		return stats, fmt.Errorf("generate: %w", err)
	}
	stats.Plan = plan
	sources := make([]flowSource, len(w.Services))
	for i := range sources {
		s := &w.Services[i]
		sources[i] = flowSource{plan: &plan.services[i], sizes: s.Sizes, service: s.Name, vnet: s.VNet,
			key: rng.MixString(rng.New(seed, rng.Service).Key(), cmp.Or(s.TwinOf, s.Name))}
		sources[i].next()
	}
	var b flowColumns
	for w.Flows == 0 || stats.Flows < w.Flows {
		at := 0
		for i := 1; i < len(sources); i++ {
			if sources[i].clockNS < sources[at].clockNS {
				at = i
			}
		}
		s := &sources[at]
		if w.DurationNS > 0 && s.clockNS >= float64(w.DurationNS) {
			break
		}
		if s.clockNS >= 1<<62 {
			return stats, fmt.Errorf("generate: service %q is so slow that its flow %d would start after 146 years", s.service, s.index)
		}
		start := int64(s.clockNS)
		if stats.Flows == 0 {
			stats.FirstStartNS = start
		}
		b.append(stats.Flows, s, start)
		stats.LastStartNS = start
		stats.Flows++
		stats.Bytes += s.sizeBytes
		stats.ServiceFlows[at]++
		stats.ServiceBytes[at] += s.sizeBytes
		if len(b.id) == columns.BatchRows {
			if err := ctx.Err(); err != nil {
				return stats, err
			}
			if err := b.flush(out); err != nil {
				return stats, err
			}
		}
		s.next()
	}
	if err := ctx.Err(); err != nil {
		return stats, err
	}
	return stats, b.flush(out)
}

// A flowSource draws one service's flows, one after the other.
type flowSource struct {
	plan          *servicePlan
	sizes         *SizeCDF
	service, vnet string
	key           uint64
	index         uint64 // of the flow after this one
	clockNS       float64
	drawnFlow
	ahead []drawnFlow // the flows after this one
	block []drawnFlow // what they are a part of
}

type drawnFlow struct {
	src, dst  int32
	sizeBytes int64
	gapNS     float64 // since the flow before it
}

// blockFlows is how many flows are drawn at a time.
const blockFlows = 256

// next goes to the next flow.
func (s *flowSource) next() {
	if len(s.ahead) == 0 {
		s.draw()
	}
	s.drawnFlow, s.ahead = s.ahead[0], s.ahead[1:]
	s.index++
	s.clockNS += s.gapNS
}

// draw draws the next block of flows. The order of a flow's draws is part of the results. The pairs come
// in a loop of their own, so that the processor looks up many at once in a table beyond its caches.
func (s *flowSource) draw() {
	var streams [blockFlows]rng.Stream
	var pairs [blockFlows]rackPair
	for k := range pairs {
		st := rng.Indexed(s.key, s.index+uint64(k))
		pairs[k] = s.plan.cells.draw(st.Uint64())
		streams[k] = st
	}
	s.block = slices.Grow(s.block[:0], blockFlows)[:blockFlows]
	for k, pair := range pairs {
		st := &streams[k]
		x := st.Uint64()
		from, to := s.plan.racks[pair.src], s.plan.racks[pair.dst]
		i := rng.Below32(uint32(x>>32), len(from))
		var j int
		if pair.src == pair.dst {
			if j = rng.Below32(uint32(x), len(to)-1); j >= i {
				j++
			}
		} else {
			j = rng.Below32(uint32(x), len(to))
		}
		s.block[k] = drawnFlow{from[i], to[j], s.sizes.Size(st.Float64()), s.plan.gapNS.Draw(st)}
	}
	s.ahead = s.block
}

type flowColumns struct {
	id, size, start []int64
	src, dst        []int32
	service, vnet   []string
	synthetic       []bool // nil: no start is
}

func (b *flowColumns) append(id int64, s *flowSource, start int64) {
	b.id = append(b.id, id)
	b.src = append(b.src, s.src)
	b.dst = append(b.dst, s.dst)
	b.size = append(b.size, s.sizeBytes)
	b.start = append(b.start, start)
	b.service = append(b.service, s.service)
	b.vnet = append(b.vnet, s.vnet)
}

// flush writes the rows and forgets them; sinks keep no batch, so the columns are used again.
func (b *flowColumns) flush(out schema.Sink) error {
	if len(b.id) == 0 {
		return nil
	}
	synthetic := columns.False(len(b.id))
	if b.synthetic != nil {
		synthetic = columns.Bools(b.synthetic)
	}
	err := columns.Write(out, schema.Flows, len(b.id), columns.Of(b.id), columns.Of(b.src), columns.Of(b.dst),
		columns.Of(b.size), columns.Of(b.start), columns.Strings(b.service), columns.Strings(b.vnet), synthetic)
	b.synthetic = b.synthetic[:0]
	b.id, b.size, b.start = b.id[:0], b.size[:0], b.start[:0]
	b.src, b.dst = b.src[:0], b.dst[:0]
	b.service, b.vnet = b.service[:0], b.vnet[:0]
	return err
}

type rackPair struct{ src, dst int32 }

// An aliasTable draws a rack pair by weight with one random number and one look (Walker's alias
// method, as built by Vose, 1991).
type aliasTable []aliasCell

type aliasCell struct {
	keep       uint64 // take own where the fraction is below keep / 2^64, else other
	own, other rackPair
}

func newAliasTable(pairs []rackPair, weights []float64, sum float64) aliasTable {
	t := make(aliasTable, len(pairs))
	scaled := make([]float64, len(pairs))
	var small, large []int32
	for i, w := range weights {
		scaled[i] = w / sum * float64(len(pairs))
		if scaled[i] < 1 {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for i, p := range pairs {
		t[i] = aliasCell{math.MaxUint64, p, p}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		t[s].keep = uint64(scaled[s] * 0x1p64)
		t[s].other = pairs[l]
		scaled[l] -= 1 - scaled[s]
		if scaled[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return t // what rounding left over keeps to itself
}

// draw uses the high bits of x·len for the cell and the low ones for the choice in it.
func (t aliasTable) draw(x uint64) rackPair {
	i, fraction := bits.Mul64(x, uint64(len(t)))
	if c := &t[i]; fraction < c.keep {
		return c.own
	}
	return t[i].other
}
