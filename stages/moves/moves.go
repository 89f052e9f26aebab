// Package moves is about paths that move while flows run: how switches choose among links, and cables that go
// down, lose packets or have another bandwidth for a time.
//
//	scenario file, flags ─► Text ─► Moves (part of the scenario's id) ─┬─► weights, hash, routes ─► topology.Router
//	                                                                   └─► Routes, Engine ─► network.Forward
//
// Balances ecmp and wcmp, and routes of files, give each flow one path; every estimator has them. All else
// exists in the whole network only.
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

// Configure gives a router the weights, the hash and the routes of files.
func (m *Moves) Configure(r *topology.Router) error {
	if m == nil {
		return nil
	}
	r.SetWeights(m.linkWeights(r.Net))
	r.Hash = hashes[m.Hash]
	return r.SetRoutes(m.Routes)
}

// Moves are those of a scenario, with all defaults, in one form only. nil: each flow has one path, by ECMP.
type Moves struct {
	Balance    string             `json:"balance,omitempty"`    // empty: ecmp
	At         map[string][]int32 `json:"balance_at,omitempty"` // instead of Balance: switches by it; others have ecmp
	Routes     *topology.FIB      `json:"routes,omitempty"`     // of files; nil: shortest paths
	GapNS      int64              `json:"flowlet_gap_ns,omitempty"`
	Hash       string             `json:"hash,omitempty"`        // as of ParseHash; empty: by flow and switch
	ConvergeNS int64              `json:"converge_ns,omitempty"` // from an event "down", or its end, to routes that know
	RepairNS   int64              `json:"repair_ns,omitempty"`   // the same of the ends of the cable; 0: ConvergeNS
	Weights    [][3]int64         `json:"weights,omitempty"`     // ends, bps: of cables with another than their bandwidth
	Events     []Event            `json:"events,omitempty"`      // by cable, kind and time
	Receivers  string             `json:"receivers,omitempty"`   // InOrder; empty: any order
}

// Whole reports whether only a simulation of the whole network can have the moves: a flow has more than one
// path.
func (m *Moves) Whole() bool {
	return m != nil && (len(m.Events) > 0 || m.reorders())
}

// Check reports values that Apply does not make, and the first event that the network cannot have.
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
