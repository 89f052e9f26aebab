package workload

import (
	"errors"
	"fmt"
	"slices"

	"parsimon/stages/topology"
)

// A service's traffic is described by groups of hosts and the weight from each group to each other. All hosts of a
// group are equal, and no host sends to itself.

// weightFunc returns the weight from group i to group j.
type weightFunc func(i, j int) float64

// HostRacks returns the racks of a service that is confined to some racks and hosts, with only these; nil means all.
// The service's matrix has a row for each.
func HostRacks(n *topology.Network, places []int, hosts []int32) ([][]int32, error) {
	all := n.Racks()
	racks := all
	if places != nil {
		racks = nil
		used := map[int]bool{}
		for _, k := range places {
			if k < 0 || k >= len(all) {
				return nil, fmt.Errorf("rack %d: the network has racks 0 to %d", k, len(all)-1)
			}
			if used[k] {
				return nil, fmt.Errorf("rack %d is listed twice", k)
			}
			used[k] = true
			racks = append(racks, all[k])
		}
	}
	if hosts == nil {
		return racks, nil
	}
	var left [][]int32
	for _, rack := range racks {
		kept := slices.DeleteFunc(slices.Clone(rack), func(h int32) bool {
			_, found := slices.BinarySearch(hosts, h)
			return !found
		})
		if len(kept) > 0 {
			left = append(left, kept)
		}
	}
	return left, nil
}

// rackGroups returns the racks of a service and its matrix over them. The weight from a rack of a single host to
// itself is 0.
func rackGroups(n *topology.Network, s *Service) (racks [][]int32, weight weightFunc, err error) {
	if racks, err = HostRacks(n, s.Racks, s.Hosts); err != nil {
		return nil, nil, err
	}
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
func pairGroups(n *topology.Network, pairs [][2]int32) (hosts [][]int32, weight weightFunc, err error) {
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
