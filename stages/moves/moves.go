// Package moves describes paths that change while flows run: how switches choose among links, and cables that
// temporarily go down, lose packets or have another bandwidth.
//
//	scenario file, flags ─► Text ─► Moves (part of the scenario's id) ─┬─► weights, hash, routes ─► topology.Router
//	                                                                   └─► Routes, Engine ─► network.Forward
//
// Balances ecmp and wcmp, and routes from files, give each flow one path, so every estimator supports them.
// Everything else requires a simulation of the whole network.
package moves

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"parsimon/schema/names"
	"parsimon/simkernel/network"
	"parsimon/stages/topology"
)

// Configure sets the weights, the hash and the routes from files of a router.
func (m *Moves) Configure(r *topology.Router) error {
	if m == nil {
		return nil
	}
	r.SetWeights(m.linkWeights(r.Net))
	r.Hash = hashes[m.Hash]
	return r.SetRoutes(m.Routes)
}

// Moves are the path changes of a scenario, with all defaults, in a unique form. If it is nil, each flow has
// one path, chosen by ECMP.
type Moves struct {
	Balance string `json:"balance,omitempty"` // empty: ecmp
	// At has the ids of switches by balance, and replaces Balance. Other switches use ecmp.
	At     map[string][]int32 `json:"balance_at,omitempty"`
	Routes *topology.FIB      `json:"routes,omitempty"` // from files; nil: shortest paths
	GapNS  int64              `json:"flowlet_gap_ns,omitempty"`
	Hash   string             `json:"hash,omitempty"` // see ParseHash; empty: by flow and switch
	// ConvergeNS is the time from the start or end of a "down" event until routes change.
	ConvergeNS int64 `json:"converge_ns,omitempty"`
	// RepairNS is the same time for the ends of the cable. If it is 0, they take ConvergeNS.
	RepairNS int64 `json:"repair_ns,omitempty"`
	// Weights has the two ends and the weight, in bps, of each cable whose weight is not its bandwidth.
	Weights   [][3]int64 `json:"weights,omitempty"`
	Events    []Event    `json:"events,omitempty"`    // sorted by cable, kind and time
	Receivers string     `json:"receivers,omitempty"` // InOrder; empty: any order
}

// Whole reports whether the moves require a simulation of the whole network, because a flow has more than one
// path.
func (m *Moves) Whole() bool {
	return m != nil && (len(m.Events) > 0 || m.reorders())
}

// Check returns an error if a value cannot come from Apply, or for the first event that is impossible in the
// network.
func (m *Moves) Check(n *topology.Network) error {
	if m == nil {
		return nil
	}
	_, known := balances[cmp.Or(m.Balance, ECMP)]
	bad := !known || m.Balance != "" && m.At != nil || min(m.GapNS, m.ConvergeNS, m.RepairNS) < 0 ||
		m.ConvergeNS > network.MaxNS || slices.ContainsFunc(m.Weights, func(w [3]int64) bool { return w[2] < 1 })
	for balance, ids := range m.At {
		of, known := balances[balance]
		bad = bad || !known || of >= network.PLB || slices.ContainsFunc(ids, func(id int32) bool {
			_, is := n.Node(id)
			return !is
		})
	}
	if bad {
		return errors.New("its balances, weights or times of paths that move are damaged")
	}
	for i := range m.Events {
		if err := m.Events[i].check(n); err != nil {
			return err
		}
	}
	return nil
}

// Describe names the balance and the events.
func (m *Moves) Describe(n *topology.Network) string {
	all := []string{"balance " + cmp.Or(m.Balance, ECMP)}
	for _, balance := range slices.Sorted(maps.Keys(m.At)) {
		all = append(all, fmt.Sprintf("%s at %s", balance, topology.Count(len(m.At[balance]), "switch")))
	}
	if m.Hash != "" {
		all = append(all, "hash "+m.Hash)
	}
	events := names.Of(m.Events, func(e Event) string { return e.Describe(n) })
	return names.Listed(append(all, events...), 5)
}
