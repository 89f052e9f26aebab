package workload

import (
	"errors"
	"fmt"

	"parsimon/stages/rng"
	"parsimon/stages/topology"
)

// Plan is what a workload amounts to on a network, before any flow is drawn.
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

// NewPlan computes the rates of a workload from the expected loads of links (Router.ExpectedLoads),
// exactly and without drawing flows. The weight from a rack of a single host to itself is left out, because a
// flow needs two hosts. Errors name the service.
func NewPlan(r *topology.Router, w *Workload) (*Plan, error) {
	if (w.DurationNS > 0) == (w.Flows > 0) {
		return nil, fmt.Errorf("the workload needs either a duration (it has %d ns) or a number of flows (it has %d)",
			w.DurationNS, w.Flows)
	}
	p := &Plan{LinkLoad: make([]float64, len(r.Net.Links)), ServiceFlowsPerSecond: make([]float64, len(w.Services))}
	shares := 0.0
	for _, s := range w.Services {
		shares += s.Share
	}
	for i := range w.Services {
		if err := p.addService(r, &w.Services[i], shares); err != nil {
			return nil, fmt.Errorf("service %q: %w", w.Services[i].Name, err)
		}
	}
	// LinkLoad is that of one byte per second in all.
	for l, x := range p.LinkLoad {
		if x > p.LinkLoad[p.MaxLink] {
			p.MaxLink = int32(l)
		}
	}
	most := p.LinkLoad[p.MaxLink]
	if most == 0 {
		return nil, errors.New("no flow of the workload would cross a link: the hosts that exchange traffic have no path")
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

// addService adds a service's hosts and pairs, and its load at one byte per second of all services.
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
			if x := weight(i, j); x > 0 {
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
