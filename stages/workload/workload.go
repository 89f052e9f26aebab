// Package workload generates flows for a network: from traffic matrices, flow-size distributions and arrival
// processes (Generate), or from the flows of another scenario changed by a what-if (ChangeFlows).
//
//	Workload                            Plan                         table flows
//	  services: matrix, sizes,   ─────►   rates for which the  ─────►  in start order,
//	  inter-arrivals, share      NewPlan  most loaded link    Generate ids from 0
//	  max_load                            reaches max_load
//
// A service's flows are an independent arrival process. Each of its flows has its own random stream, so the
// flows of a service depend neither on other services nor on the number of flows.
package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
)

// Workload describes flows to generate, as the paper does (§4.1): services, each with a rack matrix, a size
// distribution and log-normal inter-arrival times, and a total rate that brings the most loaded link to
// MaxLoad. The readers of descriptions check these limits (package scenario).
type Workload struct {
	Services []Service
	// MaxLoad is the expected load of the most loaded link: payload bits per second relative to its bandwidth;
	// above 0.
	MaxLoad float64
	// DurationNS ends the workload before that time, and Flows after that number of flows. At least one of them
	// is set. 0 is no limit.
	DurationNS int64
	Flows      int64
}

// Service is one network-wide arrival process of flows.
type Service struct {
	Name string // label of its flows; names of services differ
	VNet string // virtual network of its flows; may be empty
	DSCP int16  // of its packets
	// Matrix has a row and a column for each rack of Network.Racks, or of Racks if set. Nil means equal weights
	// from each rack to every other.
	Matrix *Matrix
	Sizes  *SizeCDF
	Sigma  float64 // shape of the log-normal inter-arrival times, 0 (constant) to 8
	Share  float64 // of all bytes, relative to the other services; above 0
	Racks  []int   // places in Network.Racks to which the service is confined; nil for all
	// Hosts are the hosts that the service is confined to, in ascending order, or nil for all. Racks without
	// any of them are omitted, and Matrix has a row and a column for each of the others.
	Hosts []int32
	// Pairs replaces Matrix and Racks. It has the senders and receivers of the service, all of equal weight.
	// Nil for racks.
	Pairs [][2]int32
	// Poisson makes inter-arrival times exponential instead of log-normal. Sigma is then 0.
	Poisson bool
	// TwinOf names another service whose random numbers this one also uses. If sizes, inter-arrival times and
	// share are equal, both have the same flows at the same times, but between different hosts. If it is
	// empty, the service uses separate random numbers.
	TwinOf string
}

// A service's traffic is described by groups of hosts and the weight from each group to each other. All hosts
// of a group are equal, and no host sends to itself.

// HostRacks returns the racks of a service that is confined to some racks and hosts. Each has only these
// hosts; nil means all racks. The service's matrix has a row for each.
func HostRacks(n *topology.Network, places []int, hosts []int32) [][]int32 {
	racks := n.Racks()
	if places != nil {
		racks = names.Of(places, func(k int) []int32 { return n.Racks()[k] })
	}
	if hosts == nil {
		return racks
	}
	var left [][]int32
	for _, rack := range racks {
		kept := slices.DeleteFunc(slices.Clone(rack), func(h int32) bool { return !slices.Contains(hosts, h) })
		if len(kept) > 0 {
			left = append(left, kept)
		}
	}
	return left
}

// rackGroups returns the racks of a service and its matrix over them. The weight from a rack of a single host
// to itself is 0.
func rackGroups(n *topology.Network, s *Service) (racks [][]int32, weight func(i, j int) float64, err error) {
	racks = HostRacks(n, s.Racks, s.Hosts)
	if s.Hosts != nil && len(racks) == 0 {
		return nil, nil, errors.New("none of its hosts is in its racks")
	}
	if s.Matrix != nil && s.Matrix.Racks() != len(racks) {
		return nil, nil, fmt.Errorf("the matrix has %d racks, the service has %d", s.Matrix.Racks(), len(racks))
	}
	weight = func(i, j int) float64 {
		switch {
		case i == j && len(racks[i]) < 2:
			return 0
		case s.Matrix != nil:
			return s.Matrix.Weight(i, j)
		case i == j && len(racks) > 1:
			return 0
		}
		return 1
	}
	return racks, weight, nil
}

// pairGroups returns each host of the pairs as a group, in order of first mention, and weight 1 from the
// sender to the receiver of each pair.
func pairGroups(n *topology.Network, pairs [][2]int32) (hosts [][]int32, weight func(i, j int) float64,
	err error) {
	group := map[int32]int{}
	paired := map[[2]int]bool{}
	for _, p := range pairs {
		for _, id := range p {
			if v, ok := n.Node(id); !ok || v.Kind != topology.KindHost {
				return nil, nil, fmt.Errorf("pair %d:%d: node %d is not a host of the network", p[0], p[1], id)
			}
			if _, ok := group[id]; !ok {
				group[id] = len(hosts)
				hosts = append(hosts, []int32{id})
			}
		}
		key := [2]int{group[p[0]], group[p[1]]}
		switch {
		case p[0] == p[1]:
			return nil, nil, fmt.Errorf("pair %d:%d: a host does not send to itself", p[0], p[1])
		case paired[key]:
			return nil, nil, fmt.Errorf("pair %d:%d is listed twice", p[0], p[1])
		}
		paired[key] = true
	}
	return hosts, func(i, j int) float64 {
		if paired[[2]int{i, j}] {
			return 1
		}
		return 0
	}, nil
}

// Generate draws the workload's flows and writes table flows in start order, with ids from 0.
//
// Each service starts at time 0, and its first flow comes after the first inter-arrival time. Services are
// merged by start time. Flows that start in the same ns are in order of their fraction of a ns, then in order
// of their services. The random stream of a flow depends on the seed, the name of the service (or of its
// twin) and the number of the flow in the service. Another service, or more flows, therefore changes only the
// ids of the others.
func Generate(ctx context.Context, r *topology.Router, w *Workload, seed uint64, out schema.Sink) (*Plan,
	error) {
	plan, err := NewPlan(r, w)
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	sources := make([]*flowSource, len(w.Services))
	for i := range sources {
		s := &w.Services[i]
		sources[i] = &flowSource{
			Service: s, plan: &plan.services[i],
			key: rng.MixString(rng.New(seed, rng.Service).Key(), cmp.Or(s.TwinOf, s.Name)),
		}
		sources[i].next()
	}
	var rows flowRows
	for id := int64(0); w.Flows == 0 || id < w.Flows; id++ {
		s := slices.MinFunc(sources, func(a, b *flowSource) int { return cmp.Compare(a.clockNS, b.clockNS) })
		if w.DurationNS > 0 && s.clockNS >= float64(w.DurationNS) {
			break
		}
		if s.clockNS >= 1<<62 {
			return nil, fmt.Errorf("generate: service %q is so slow that its flow %d would start after 146 years",
				s.Name, s.index)
		}
		row := Row{ID: id, Src: s.src, Dst: s.dst, SizeBytes: s.sizeBytes, StartNS: int64(s.clockNS),
			Labels: Labels{Service: s.Name, VNet: s.VNet}, DSCP: s.DSCP, Connection: id}
		if err := rows.add(ctx, row, out); err != nil {
			return nil, err
		}
		s.next()
	}
	return plan, rows.flush(ctx, out)
}

type flowSource struct {
	*Service
	plan      *servicePlan
	key       uint64
	index     uint64  // of the flow after the current one
	clockNS   float64 // start of the current flow
	drawnFlow         // the current flow
	ahead     []drawnFlow
	block     []drawnFlow // memory of ahead
}

type drawnFlow struct {
	src, dst  int32
	sizeBytes int64
	gapNS     float64 // since the flow before
}

const blockFlows = 256

func (s *flowSource) next() {
	if len(s.ahead) == 0 {
		s.draw()
	}
	s.drawnFlow = s.ahead[0]
	s.ahead = s.ahead[1:]
	s.index++
	s.clockNS += s.gapNS
}

// draw draws the next block of flows. The results depend on the order of a flow's draws. Pairs are drawn in a
// separate loop, so that the processor fetches many cells of a table beyond its caches at the same time.
func (s *flowSource) draw() {
	var streams [blockFlows]rng.Stream
	var pairs [blockFlows]groupPair
	for k := range pairs {
		st := rng.Indexed(s.key, s.index+uint64(k))
		pairs[k] = s.plan.pairs.draw(st.Uint64())
		streams[k] = st
	}
	s.block = columns.Resize(s.block, blockFlows)
	for k, pair := range pairs {
		st := &streams[k]
		x := st.Uint64()
		from := s.plan.groups[pair.src]
		to := s.plan.groups[pair.dst]
		i := rng.Below32(uint32(x>>32), len(from))
		var j int
		if pair.src == pair.dst { // not the same host twice
			j = rng.Below32(uint32(x), len(to)-1)
			if j >= i {
				j++
			}
		} else {
			j = rng.Below32(uint32(x), len(to))
		}
		s.block[k] = drawnFlow{from[i], to[j], s.Sizes.Size(st.Float64()), s.plan.gapNS.Draw(st)}
	}
	s.ahead = s.block
}

// A Row is a row of table flows.
type Row struct {
	ID        int64 `col:"flow_id"`
	Src       int32 `col:"src"`
	Dst       int32 `col:"dst"`
	SizeBytes int64 `col:"size_bytes"`
	StartNS   int64 `col:"start_ns"`
	Labels
	Synthetic bool  `col:"synthetic_start"`
	DSCP      int16 `col:"dscp"` // below 0: unknown
	// Connection determines the path. It is ID, unless the flow is a part of a connection of a flow log.
	Connection int64 `col:"connection_id"`
	Background bool  `col:"background"` // the flow has no slowdown
}

// Labels are all text columns of a flow. Those of a row that has been read are in the memory of its batch.
type Labels struct {
	Service string `col:"service"`
	VNet    string `col:"vnet"`
}

// Clone returns labels that outlast the batch.
func (l Labels) Clone() Labels { return Labels{strings.Clone(l.Service), strings.Clone(l.VNet)} }

// RowTable writes table flows.
var RowTable = columns.TableOf[Row](schema.Flows)

type flowRows []Row

func (b *flowRows) add(ctx context.Context, row Row, out schema.Sink) error {
	*b = append(*b, row)
	if len(*b) < columns.BatchRows {
		return nil
	}
	return b.flush(ctx, out)
}

func (b *flowRows) flush(ctx context.Context, out schema.Sink) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := RowTable.Write(out, *b)
	*b = (*b)[:0]
	return err
}

// Plan has the rates and loads of a workload on a network, computed before any flow is drawn.
type Plan struct {
	// ServiceFlowsPerSecond is the mean rate of each service.
	ServiceFlowsPerSecond []float64
	// LinkLoad is the expected load of each link, by link id: 0 to MaxLoad.
	LinkLoad []float64
	// MaxLink is the first link of the highest expected load, and MaxLoad that load.
	MaxLink int32
	MaxLoad float64

	services []servicePlan
}

type servicePlan struct {
	groups [][]int32  // hosts of each rack, or one host each
	pairs  aliasTable // of sending and receiving group
	gapNS  interface{ Draw(s *rng.Stream) float64 }
}

// NewPlan computes the rates of a workload from the expected loads of links (Router.ExpectedLoads), exactly
// and without drawing flows. The weight of a rack with one host to itself is omitted, because a flow needs
// two hosts. Errors name the service.
func NewPlan(r *topology.Router, w *Workload) (*Plan, error) {
	if w.DurationNS <= 0 && w.Flows <= 0 {
		return nil, errors.New("the workload needs a duration or a number of flows")
	}
	p := &Plan{LinkLoad: make([]float64, len(r.Net.Links)),
		ServiceFlowsPerSecond: make([]float64, len(w.Services))}
	shares := 0.0
	for _, s := range w.Services {
		shares += s.Share
	}
	for i := range w.Services {
		if err := p.addService(r, &w.Services[i], shares); err != nil {
			return nil, fmt.Errorf("service %q: %w", w.Services[i].Name, err)
		}
	}
	// LinkLoad is relative to a total of one byte per second.
	for l, x := range p.LinkLoad {
		if x > p.LinkLoad[p.MaxLink] {
			p.MaxLink = int32(l)
		}
	}
	most := p.LinkLoad[p.MaxLink]
	if most == 0 {
		return nil, errors.New("no flow of the workload would cross a link: the hosts that exchange traffic have " +
			"no path")
	}
	bytesPerSecond := w.MaxLoad / most
	for l := range p.LinkLoad {
		p.LinkLoad[l] *= bytesPerSecond
	}
	p.MaxLoad = p.LinkLoad[p.MaxLink]
	for i := range w.Services {
		s := &w.Services[i]
		rate := bytesPerSecond * (s.Share / shares) / s.Sizes.Mean()
		p.ServiceFlowsPerSecond[i] = rate
		if s.Poisson {
			p.services[i].gapNS = Exponential{1e9 / rate}
		} else {
			p.services[i].gapNS = NewLogNormal(1e9/rate, s.Sigma)
		}
	}
	return p, nil
}

// addService adds a service's hosts and pairs, and the load that it causes if all services together send one
// byte per second.
func (p *Plan) addService(r *topology.Router, s *Service, shares float64) (err error) {
	var sp servicePlan
	var weight func(i, j int) float64
	if s.Pairs != nil {
		sp.groups, weight, err = pairGroups(r.Net, s.Pairs)
	} else {
		sp.groups, weight, err = rackGroups(r.Net, s)
	}
	if err != nil {
		return err
	}
	var pairs []groupPair
	var weights []float64
	sum := 0.0
	for i := range sp.groups {
		for j := range sp.groups {
			x := weight(i, j)
			if x > 0 {
				pairs = append(pairs, groupPair{int32(i), int32(j)})
				weights = append(weights, x)
				sum += x
			}
		}
	}
	if sum == 0 {
		return errors.New("no two hosts exchange traffic")
	}
	sp.pairs = newAliasTable(pairs, weights, sum)
	p.services = append(p.services, sp)
	for l, x := range r.ExpectedLoads(sp.groups, weight) {
		p.LinkLoad[l] += s.Share / shares * x / sum * 8 / float64(r.Net.Links[l].BandwidthBps)
	}
	return nil
}
