package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
)

// FlowChanges say how the flows of one scenario become those of another, by service. Flows of other services
// are unchanged, bit for bit.
type FlowChanges struct {
	// Scale multiplies the flows of a service by a factor from 0 to MaxScale. Below 1, each flow is kept with
	// that probability. Above 1, all are kept, and copies of the service are added. The last copy keeps the
	// remaining fraction of its flows. A copy has the service's arrivals shifted by a random time, where the
	// end of the workload continues at its beginning. It is as bursty as the service, but not synchronous
	// with it. OtherServices stands for all services that are not named.
	Scale map[string]float64
	// Move moves a service's hosts to other racks, which are indexes into Network.Racks. The service's racks,
	// ascending by place, are assigned to the given racks cyclically, and the hosts of a rack cyclically to
	// those of the new one.
	Move map[string][]int
	// Ranks means that flows wait for each other. The hosts of a service are then assigned to all hosts of
	// the given racks cyclically, both by id, so that no two ranks share a host.
	Ranks bool
}

// OtherServices is the key of FlowChanges.Scale for all services that are not named.
const OtherServices = "*"

// MaxScale is the largest factor by which a service can be scaled.
const MaxScale = 16

// ChangeFlows writes the changed table flows in start order. open reads the unchanged table from its
// beginning. It is called several times, and the streams are read concurrently, so that memory does not grow
// with the number of flows. New flows have ids above all existing ones. It returns an error if a service has
// no flows, or if the network does not have a rack. The notes name services whose hosts move to fewer ones.
func ChangeFlows(ctx context.Context, n *topology.Network, c FlowChanges, seed uint64,
	open func() schema.Batches, out schema.Sink) (notes []string, err error) {
	x := &flowChanger{net: n, changes: c, seed: seed, hosts: map[string]map[int32]bool{},
		moved: map[string]map[int32]int32{}}
	if err := x.scan(open()); err != nil {
		return nil, err
	}
	if err := x.assignHosts(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(x.moved)) {
		to := slices.Compact(slices.Sorted(maps.Values(x.moved[name])))
		from := len(x.moved[name])
		if len(to) < from {
			notes = append(notes, fmt.Sprintf("%s moves from %d hosts to %d: some of them share a host, and its "+
				"links", name, from,
				len(to)))
		}
	}
	parts, err := x.parts()
	if err != nil {
		return nil, err
	}
	type stream struct {
		flow Row
		next func() (Row, error, bool)
	}
	var streams []*stream
	for _, p := range parts {
		next, stop := iter.Pull2(x.flows(p, open()))
		defer stop()
		streams = append(streams, &stream{next: next})
	}
	advance := func(s *stream) (ended bool) {
		flow, failed, ok := s.next()
		s.flow = flow
		err = errors.Join(err, failed)
		return !ok
	}
	streams = slices.DeleteFunc(streams, advance)
	var rows flowRows
	for len(streams) > 0 && err == nil {
		first := slices.MinFunc(streams, func(a, b *stream) int {
			return cmp.Or(cmp.Compare(a.flow.StartNS, b.flow.StartNS), cmp.Compare(a.flow.ID, b.flow.ID))
		})
		if err := rows.add(ctx, first.flow, out); err != nil {
			return nil, err
		}
		if advance(first) {
			streams = slices.DeleteFunc(streams, func(s *stream) bool { return s == first })
		}
	}
	if err != nil {
		return nil, err
	}
	return notes, rows.flush(ctx, out)
}

// A flowPart is a part of the changed table:
//
//	copy 0        all flows that are kept
//	copy k > 0    one service, shifted by a random time; in two parts, because the flows that are shifted
//	              beyond the end of the workload come first:
//
//	              |----------- unchanged -----------|..tail..|
//	              |..tail..|----------- shifted ------------|
type flowPart struct {
	copy    int
	service string // if copy > 0
	baseID  int64  // id of the copy of row 0
	shiftNS int64
	cutNS   int64 // flows that start later are the tail
	tail    bool
}

func (x *flowChanger) parts() ([]flowPart, error) {
	parts := []flowPart{{}}
	copies := int64(0)
	for _, service := range slices.Sorted(maps.Keys(x.changes.Scale)) {
		for k := 1; float64(k) < x.changes.Scale[service]; k++ {
			draw := rng.New(rng.MixString(x.seed, service), rng.Change, uint64(k))
			span := uint64(x.lastNS-x.firstNS) + 1
			shift := int64(draw.Uint64() % span)
			base := x.maxID + 1 + copies*x.rows
			copies++
			if x.rows > 0 && (math.MaxInt64-x.maxID-1)/x.rows < copies {
				return nil, errors.New("flow ids are so high that no ids are left above them for copies of flows")
			}
			parts = append(parts, flowPart{k, service, base, shift - int64(span), x.lastNS - shift, true},
				flowPart{k, service, base, shift, x.lastNS - shift, false})
		}
	}
	return parts, nil
}

// errStopped ends the reading when the consumer of the flows has stopped.
var errStopped = errors.New("stopped")

// flows yields the flows of a part in start order. It reads them from the unchanged table, which it closes.
func (x *flowChanger) flows(p flowPart, in schema.Batches) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		place := int64(-1)
		err := columns.Each(in, func(row *Row) error {
			place++
			if p.copy > 0 && (x.scaledAs(row.Service) != p.service || (row.StartNS > p.cutNS) != p.tail) ||
				!x.kept(row.Service, row.ID, p.copy) {
				return nil
			}
			row.Src, row.Dst = x.hostsOf(row.Service, row.Src, row.Dst)
			row.Labels = row.Labels.Clone()
			row.StartNS += p.shiftNS
			if p.copy > 0 {
				id := p.baseID + place
				if row.Connection == row.ID { // otherwise the copies are sent on the same connections
					row.Connection = id
				}
				row.ID = id
				row.Synthetic = true
			}
			if !yield(*row, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(Row{}, err)
		}
	}
}

type flowChanger struct {
	net             *topology.Network
	changes         FlowChanges
	seed            uint64
	firstNS, lastNS int64 // starts of the first and of the last flow
	maxID, rows     int64
	hosts           map[string]map[int32]bool  // of services that move
	moved           map[string]map[int32]int32 // new host of each host
	targets         map[string][]int32         // all hosts of the racks that a service moves to
}

func (x *flowChanger) scan(in schema.Batches) error {
	seen := map[string]bool{}
	x.firstNS = math.MaxInt64
	x.lastNS = math.MinInt64
	x.maxID = -1
	err := columns.Each(in, func(row *Row) error {
		x.rows++
		x.maxID = max(x.maxID, row.ID)
		x.firstNS = min(x.firstNS, row.StartNS)
		x.lastNS = max(x.lastNS, row.StartNS)
		name := row.Service // in the memory of the batch
		if !seen[name] {
			seen[strings.Clone(name)] = true
		}
		if _, ok := x.changes.Move[name]; ok {
			if x.hosts[name] == nil {
				x.hosts[strings.Clone(name)] = map[int32]bool{}
			}
			x.hosts[name][row.Src] = true
			x.hosts[name][row.Dst] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	changed := slices.Concat(slices.Sorted(maps.Keys(x.changes.Scale)), slices.Sorted(maps.Keys(x.changes.Move)))
	for _, name := range changed {
		if _, scaled := x.changes.Scale[name]; !seen[name] && !(name == OtherServices && scaled) {
			return fmt.Errorf("service %q has no flows; the services are %q", name, slices.Sorted(maps.Keys(seen)))
		}
	}
	return nil
}

func (x *flowChanger) assignHosts() error {
	racks := x.net.Racks()
	rackOf := map[int32]int{}
	placeIn := map[int32]int{}
	for r, hosts := range racks {
		for i, h := range hosts {
			rackOf[h] = r
			placeIn[h] = i
		}
	}
	x.targets = map[string][]int32{}
	for name, to := range x.changes.Move {
		for _, r := range to {
			if r < 0 || r >= len(racks) {
				return fmt.Errorf("service %q cannot move to rack %d: the racks are 0 to %d", name, r, len(racks)-1)
			}
			x.targets[name] = append(x.targets[name], racks[r]...)
		}
		n := len(x.targets[name])
		if n < 2 {
			return fmt.Errorf("service %q cannot move to racks of %d hosts in all: a flow needs two", name, n)
		}
		var from []int
		for h := range x.hosts[name] {
			from = append(from, rackOf[h])
		}
		from = slices.Compact(slices.Sorted(slices.Values(from)))
		x.moved[name] = map[int32]int32{}
		if n := len(x.hosts[name]); x.changes.Ranks {
			if n > len(x.targets[name]) {
				return fmt.Errorf("job %q has %d hosts, and the racks that it would move to %d", name, n,
					len(x.targets[name]))
			}
			for i, h := range slices.Sorted(maps.Keys(x.hosts[name])) {
				x.moved[name][h] = x.targets[name][i]
			}
			continue
		}
		for h := range x.hosts[name] {
			target := racks[to[slices.Index(from, rackOf[h])%len(to)]]
			x.moved[name][h] = target[placeIn[h]%len(target)]
		}
	}
	return nil
}

// scaledAs returns the key of Scale that applies to a service.
func (x *flowChanger) scaledAs(service string) string {
	if _, named := x.changes.Scale[service]; named {
		return service
	}
	return OtherServices
}

// kept reports whether copy k of a service includes a flow. Copy 0 is the service itself.
func (x *flowChanger) kept(service string, flowID int64, k int) bool {
	factor, ok := x.changes.Scale[x.scaledAs(service)]
	if !ok {
		return k == 0
	}
	if float64(k+1) <= factor {
		return true
	}
	s := rng.New(x.seed, rng.Change, uint64(flowID))
	return s.Float64() < factor-float64(k)
}

// hostsOf returns the hosts of a flow after the move. If both hosts were assigned to the same one, the flow
// goes to the next host of the new racks.
func (x *flowChanger) hostsOf(service string, src, dst int32) (int32, int32) {
	to, ok := x.moved[service]
	if !ok {
		return src, dst
	}
	src = to[src]
	dst = to[dst]
	if x.changes.Ranks {
		return src, dst
	}
	if src == dst {
		targets := x.targets[service]
		at := slices.Index(targets, dst)
		for targets[at] == src {
			at = (at + 1) % len(targets)
		}
		dst = targets[at]
	}
	return src, dst
}
