// Package workload generates flows for a network: from traffic matrices, flow-size distributions and arrival
// processes (Generate), or from the flows of another scenario changed by a what-if (ChangeFlows).
//
//	Workload                            Plan                         table flows
//	  services: matrix, sizes,   ─────►   rates for which the  ─────►  in start order,
//	  inter-arrivals, share      NewPlan  most loaded link    Generate ids from 0
//	  max_load                            reaches max_load
//
// A service's flows are an independent arrival process. Each of its flows draws from a random stream of its own,
// so the flows of a service do not depend on the other services or on how many flows are generated.
package workload

import (
	"errors"
	"fmt"
	"slices"

	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// Workload describes flows to generate, as the paper does (§4.1): services, each with a rack matrix, a size
// distribution and log-normal inter-arrival times, and a total rate that brings the most loaded link to MaxLoad.
// The readers of descriptions check these limits (package scenario).
type Workload struct {
	Services []Service
	// MaxLoad is the expected load of the most loaded link: payload bits per second relative to its bandwidth; above 0.
	MaxLoad float64
	// DurationNS ends the workload before that time, Flows after that many flows. One of them is set.
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
	// Hosts to which the service is confined, ascending; nil for all. Racks without any of them are left out, and
	// Matrix has a row and a column for each of the others.
	Hosts []int32
	// Pairs, instead of Matrix and Racks, are the senders and receivers of the service, all of equal weight. Nil
	// for racks.
	Pairs [][2]int32
	// Poisson makes inter-arrival times exponential instead of log-normal. Sigma is then 0.
	Poisson bool
	// TwinOf names another service whose random numbers this one draws too. With the same sizes, inter-arrivals
	// and share it has the same flows at the same times, between its own hosts. Empty for numbers of its own.
	TwinOf string
}

// A service's traffic is described by groups of hosts and the weight from each group to each other. All hosts of a
// group are equal, and no host sends to itself.

// HostRacks returns the racks of a service that is confined to some racks and hosts, with only these; nil means all.
// The service's matrix has a row for each.
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

// rackGroups returns the racks of a service and its matrix over them. The weight from a rack of a single host to
// itself is 0.
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

// pairGroups returns the hosts of the pairs, each a group of its own in the order of first mention, and weight 1
// from the sender to the receiver of each pair.
func pairGroups(n *topology.Network, pairs [][2]int32) (hosts [][]int32, weight func(i, j int) float64, err error) {
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
