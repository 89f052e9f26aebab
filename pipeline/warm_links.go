package pipeline

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
)

// Which links and hosts a warm estimate simulates again. The constants are those with the least work of the ones that
// were tried, at equal percentiles (pipeline/whatif/README.md, "A warm start").

// Changes of a link's packets, relative to the base's, from which on the first step simulates it again: of one that
// matters to others (stages.MattersToOthers), and of one that does not.
const (
	materialChange   = 0.05
	immaterialChange = 0.5
)

// Later steps simulate something if the step before changed the waits in switches by more than warmMoved, relative to
// their sum: links whose feedback_share is above warmShare.
const (
	warmMoved = 0.01
	warmShare = 0.1
)

// warmWaits is the change of the waits at a link, relative to its waits now, up to which the hosts whose flows cross it
// need no new replay.
const warmWaits = 0.05

// unaffected are the links that step n does not simulate. sweeps are the base's last pass and the steps before.
func (m *method) unaffected(n int, base warmBase, sweeps []*engine.Stage) omission {
	reads := append(m.loadTables(), base.route.Output(schema.LinkLoads))
	for _, s := range sweeps {
		reads = append(reads, s.Output(schema.LinkStats))
	}
	return omission{reads, func(in *engine.Inputs) (stages.Settled, error) {
		changes, err := m.changes(in, base)
		if err != nil {
			return nil, err
		}
		rerouted, err := m.rerouted(in, base)
		if err != nil {
			return nil, err
		}
		moved := 1.0
		if n > 1 {
			by, err := movedBy(in, m.Network, sweeps[n-2], sweeps[n-1])
			if err != nil {
				return nil, err
			}
			moved = by.Share
		}
		stats := in.Read(sweeps[n-1].Output(schema.LinkStats), nil, nil)
		defer func() { _ = stats.Close() }() // read to its end, or an error is reported
		return stages.ReadOmitted(stats, func(link int32, share float64) bool {
			switch {
			case n == 1 && stages.MattersToOthers(share):
				return changes[link] <= materialChange
			case n == 1:
				return changes[link] <= immaterialChange
			}
			return moved <= warmMoved || m.Network.FromHost(link) || share <= warmShare || changes[link] == 0 && !rerouted[link]
		})
	}}
}

// unaffectedHosts are the uplinks of hosts none of whose flows crosses a link whose waits differ from the base's by
// more than warmWaits, or whose bandwidth does. Their replays are the base's. sweeps are the base's last pass and the
// steps.
func (m *method) unaffectedHosts(base warmBase, sweeps []*engine.Stage) omission {
	last, hops := sweeps[len(sweeps)-1], m.route.Output(schema.Hops)
	reads := append(m.loadTables(), base.last.Output(schema.LinkStats), last.Output(schema.LinkStats), hops)
	return omission{reads, func(in *engine.Inputs) (stages.Settled, error) {
		by, err := movedBy(in, m.Network, base.last, last)
		if err != nil {
			return nil, err
		}
		changes, err := m.changes(in, base)
		if err != nil {
			return nil, err
		}
		moved := func(link int32) bool { // uplinks have no waits of which by knows
			return math.Abs(by.Links[link]) > warmWaits || math.IsInf(changes[link], 0) ||
				m.Network.FromHost(link) && changes[link] > materialChange
		}
		rows := in.Read(hops, []string{"link_id", "first_link"}, nil)
		defer func() { _ = rows.Close() }() // read to its end, or an error is reported
		affected := make([]bool, len(m.Network.Links))
		err = columns.ForEach(rows, func(rec arrow.Record) error {
			first := columns.Int32s(rec, "first_link")
			for i, link := range columns.Int32s(rec, "link_id") {
				if moved(link) {
					affected[first[i]] = true
				}
			}
			return nil
		})
		return stages.Omit(m.Network, func(link int32) bool { return !affected[link] }), err
	}}
}

// changes is by how much the traffic of each link differs from the base's (stages.ReadChanges).
func (m *method) changes(in *engine.Inputs, base warmBase) ([]float64, error) {
	loads, err := m.readLoads(in)
	if err != nil {
		return nil, err
	}
	stats := in.Read(base.last.Output(schema.LinkStats), nil, nil)
	defer func() { _ = stats.Close() }() // read to its end, or an error is reported
	return stages.ReadChanges(m.Network, &m.Spec.Params, loads, stats)
}

// rerouted reports, by link id, whether the rows of table hops differ from the base's: flows come, go, or take another
// path to or from the link.
func (m *method) rerouted(in *engine.Inputs, base warmBase) ([]bool, error) {
	now, was := routeDigests(m.Lake, in.Records(m.route)), routeDigests(m.Lake, in.Records(base.route))
	if len(now) != len(m.Network.Links) || was == nil {
		return nil, fmt.Errorf("stage route of scenario %s or %s has left no digests of its hops: run them again", m.ID(), m.variant.Warm.Base)
	}
	rerouted := make([]bool, len(now))
	for id := range now {
		rerouted[id] = id >= len(was) || now[id] != was[id]
	}
	return rerouted, nil
}
