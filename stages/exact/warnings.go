package exact

import (
	"cmp"
	"fmt"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/diagnose"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/topology"
)

// goBackFlight is the smallest ratio of the bytes in flight on a cable to the bytes that its port's buffer
// holds at which senders that go back may not finish.
const goBackFlight = 1.0

// fullLoad is the smallest load at which a link's queue grows until the workload ends.
const fullLoad = 1

// warnings returns the warnings of the estimator about overloaded links and small buffers. They do not depend
// on its results.
func warnings(m *step.Model, f *diagnose.Findings) []diagnose.Warning {
	return append(diagnose.Overloads(m, f.Loads, fullLoad), BufferWarnings(m, f.Loads)...)
}

// BufferWarnings returns the warnings about limited buffers in a simulation of the whole network. They are
// known before it starts.
func BufferWarnings(m *step.Model, loads *route.Loads) []diagnose.Warning {
	return append(headroomWarnings(m), goBackWarnings(m, loads)...)
}

// headroomWarnings returns a warning about the switch with the smallest share of the headroom that PFC needs,
// or nil if all have enough.
func headroomWarnings(m *step.Model) []diagnose.Warning {
	n := m.Network
	b := m.Buffers
	if !b.PFC {
		return nil
	}
	all := shortfalls(m)
	if len(all) == 0 {
		return nil
	}
	worst := slices.MinFunc(all, func(a, b network.Shortfall) int { return cmp.Compare(a.Share, b.Share) })
	text := fmt.Sprintf(
		"PFC is not lossless: a buffer of %d bytes has %.0f%% of the headroom that %s needs, which drops nothing "+
			"with %d bytes; it is too small for %s; use a larger --switch-buffer", b.SwitchBytes, 100*worst.Share,
		n.Name(n.Nodes[worst.Node].ID), worst.LeastSafe, topology.Count(len(all), "switch"))
	return []diagnose.Warning{{Kind: "buffers", Measure: worst.Share, Threshold: 1, Link: -1, Text: text}}
}

// goBackWarnings returns a warning for each switch port with a limited buffer that holds fewer bytes than can
// be in flight on its cable. It does so only if senders retransmit all of these bytes after a loss and do not
// slow down. The worst port is first.
func goBackWarnings(m *step.Model, loads *route.Loads) (out []diagnose.Warning) {
	n := m.Network
	p := &m.Params
	b := m.Buffers
	if b.IsZero() || b.PFC || b.Selective || p.Transport.Traits().AckClocked {
		return nil
	}
	_, fastest := n.HostBps()
	for id := range n.Links {
		l := &n.Links[id]
		flight := 2 * float64(l.DelayNS) * float64(min(fastest, l.BandwidthBps)) / 8e9
		if p.WANWindowBytes != simkernel.AutoWindow {
			flight = min(flight, float64(max(p.WindowBytes, p.WANWindowBytes)))
		}
		room := b.Alpha/(1+b.Alpha)*float64(b.SwitchBytes) + float64(b.ReservedBytes)
		share := flight / room
		if share < goBackFlight || loads.Links[id].Flows == 0 || n.FromHost(l.ID) {
			continue
		}
		text := fmt.Sprintf(
			"%.0f bytes can be in flight on %s (link %d, %d ns), and its switch's buffer of %d holds %.0f there: "+
				"senders of %s go back after a loss and send all of that again, which may come to no end; use "+
				"--transport cubic or newreno, or --selective-recovery", flight, n.LinkName(l.ID), l.ID, l.DelayNS,
			b.SwitchBytes, room,
			p.Transport)
		out = append(out, diagnose.Warning{
			Kind: "buffers", Measure: share, Threshold: goBackFlight, Link: l.ID, Text: text,
		})
	}
	slices.SortStableFunc(out, func(a, b diagnose.Warning) int { return cmp.Compare(b.Measure, a.Measure) })
	return out
}
