package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
)

// FlowChanges say how the flows of one scenario become those of another, service by service. Flows of
// other services stay as they are, bit for bit.
type FlowChanges struct {
	// Scale multiplies the flows of a service, from 0 (it goes away) to MaxScale. Below 1, a share of
	// its flows stays, drawn flow by flow. Above 1 all stay, and each comes again as often as it
	// takes; a second coming is the whole service's arrivals moved in time, the end joined to the
	// beginning, by a random time of its own: the copies are as bursty as the service, and not in
	// step with it.
	Scale map[string]float64
	// Move puts a service's hosts into other racks (places in Network.Racks): its racks, ascending by
	// their places, go to the given ones in turn, and a rack's hosts to the new rack's in turn.
	Move map[string][]int
}

// MaxScale is the most that a service can be scaled by.
const MaxScale = 16

// ChangedFlows says what came of changing flows.
type ChangedFlows struct {
	Flows                     int64
	FirstStartNS, LastStartNS int64
}

// ChangeFlows writes table flows as changed, in start order. open reads the unchanged table from its
// beginning; it is called several times, and the streams are read side by side, so that memory does
// not grow with the flows. New flows have ids above all there were.
func ChangeFlows(ctx context.Context, n *topology.Network, c FlowChanges, seed uint64, open func() schema.Batches, out schema.Sink) (done ChangedFlows, err error) {
	x := &flowChanger{net: n, changes: c, seed: seed, hosts: map[string]map[int32]bool{}, moved: map[string]map[int32]int32{}}
	if err := x.scan(open()); err != nil {
		return done, err
	}
	if err := x.place(); err != nil {
		return done, err
	}
	var streams []*flowStream
	defer func() {
		for _, s := range streams {
			s.close()
		}
	}()
	start := func(s *flowStream) error {
		streams = append(streams, s)
		return s.next()
	}
	if err := start(&flowStream{x: x, in: open(), id: -1}); err != nil {
		return done, err
	}
	copies := int64(0)
	for _, service := range slices.Sorted(maps.Keys(c.Scale)) {
		for k := 1; float64(k) < c.Scale[service]; k++ {
			draw := rng.New(rng.MixString(seed, service), rng.Change, uint64(k))
			span := uint64(x.last-x.first) + 1
			shift := int64(draw.Uint64() % span)
			base := x.maxID + 1 + copies*x.rows
			if copies++; x.rows > 0 && (math.MaxInt64-x.maxID-1)/x.rows < copies {
				return done, errors.New("flow ids are so high that copies of flows find no room above them")
			}
			cut := x.last - shift // flows that start after this come first
			for _, late := range []bool{true, false} {
				s := &flowStream{x: x, in: open(), id: base, service: service, copy: k, shift: shift, cut: cut, late: late}
				if late {
					s.shift -= int64(span)
				}
				if err := start(s); err != nil {
					return done, err
				}
			}
		}
	}
	var b flowColumns
	for {
		var least *flowStream
		for _, s := range streams {
			if !s.ended && (least == nil || s.start < least.start || s.start == least.start && s.flowID < least.flowID) {
				least = s
			}
		}
		if least == nil {
			break
		}
		if done.Flows == 0 {
			done.FirstStartNS = least.start
		}
		done.LastStartNS = least.start
		done.Flows++
		b.add(least)
		if len(b.id) == columns.BatchRows {
			if err := errors.Join(ctx.Err(), b.flush(out)); err != nil {
				return done, err
			}
		}
		if err := least.next(); err != nil {
			return done, err
		}
	}
	return done, errors.Join(ctx.Err(), b.flush(out))
}

type flowChanger struct {
	net         *topology.Network
	changes     FlowChanges
	seed        uint64
	first, last int64
	maxID, rows int64
	hosts       map[string]map[int32]bool // of services that move
	moved       map[string]map[int32]int32
	spare       map[string][]int32 // hosts of the racks a service moves to

}

// scan learns what the changes need to know of all flows.
func (x *flowChanger) scan(in schema.Batches) error {
	seen := map[string]bool{}
	x.first, x.last, x.maxID = math.MaxInt64, math.MinInt64, -1
	err := columns.ForEach(in, func(rec arrow.Record) error {
		id, start := columns.Int64s(rec, "flow_id"), columns.Int64s(rec, "start_ns")
		src, dst := columns.Int32s(rec, "src"), columns.Int32s(rec, "dst")
		service := columns.Text(rec, "service")
		for i := range id {
			x.rows++
			x.maxID = max(x.maxID, id[i])
			x.first, x.last = min(x.first, start[i]), max(x.last, start[i])
			name := service.Value(i)
			if !seen[name] {
				seen[string([]byte(name))] = true
			}
			if _, ok := x.changes.Move[name]; ok {
				if x.hosts[name] == nil {
					x.hosts[string([]byte(name))] = map[int32]bool{}
				}
				x.hosts[name][src[i]], x.hosts[name][dst[i]] = true, true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, names := range [][]string{slices.Sorted(maps.Keys(x.changes.Scale)), slices.Sorted(maps.Keys(x.changes.Move))} {
		for _, name := range names {
			if !seen[name] {
				return fmt.Errorf("no flow is of service %q; the services are %q", name, slices.Sorted(maps.Keys(seen)))
			}
		}
	}
	return nil
}

// place works out where the hosts of services that move go.
func (x *flowChanger) place() error {
	racks := x.net.Racks()
	rackOf, placeIn := map[int32]int{}, map[int32]int{}
	for r, hosts := range racks {
		for i, h := range hosts {
			rackOf[h], placeIn[h] = r, i
		}
	}
	x.spare = map[string][]int32{}
	for name, to := range x.changes.Move {
		for _, r := range to {
			if r < 0 || r >= len(racks) {
				return fmt.Errorf("service %q cannot move to rack %d: the racks are 0 to %d", name, r, len(racks)-1)
			}
			x.spare[name] = append(x.spare[name], racks[r]...)
		}
		if len(x.spare[name]) < 2 {
			return fmt.Errorf("service %q cannot move to racks of %d hosts in all: a flow needs two", name, len(x.spare[name]))
		}
		var from []int
		for h := range x.hosts[name] {
			from = append(from, rackOf[h])
		}
		slices.Sort(from)
		from = slices.Compact(from)
		x.moved[name] = map[int32]int32{}
		for h := range x.hosts[name] {
			target := racks[to[slices.Index(from, rackOf[h])%len(to)]]
			x.moved[name][h] = target[placeIn[h]%len(target)]
		}
	}
	return nil
}

// stays says whether a flow is there in copy k of its service (0: itself).
func (x *flowChanger) stays(service string, flowID int64, k int) bool {
	factor, ok := x.changes.Scale[service]
	if !ok {
		return k == 0
	}
	if float64(k+1) <= factor {
		return true
	}
	s := rng.New(x.seed, rng.Change, uint64(flowID))
	return s.Float64() < factor-float64(k)
}

// hostsOf is where a flow runs between after the move.
func (x *flowChanger) hostsOf(service string, src, dst int32) (int32, int32) {
	to, ok := x.moved[service]
	if !ok {
		return src, dst
	}
	src, dst = to[src], to[dst]
	if src == dst { // two hosts have become one: the receiver is the next
		spare := x.spare[service]
		at := slices.Index(spare, dst)
		for spare[at] == src {
			at = (at + 1) % len(spare)
		}
		dst = spare[at]
	}
	return src, dst
}

// A flowStream is the flows of the unchanged table (id < 0), or one coming of one service again, cut
// in two where its end is joined to its beginning.
type flowStream struct {
	x       *flowChanger
	in      schema.Batches
	id      int64 // of the copy of row 0
	service string
	copy    int
	shift   int64
	cut     int64
	late    bool // of the two: the flows after the cut

	rec    arrow.Record
	at     int
	row    int64 // of the table
	ended  bool
	flowID int64
	start  int64
	size   int64
	src    int32
	dst    int32
	label  string
	vnet   string
	drawn  bool // the start
}

// next moves to the next flow that stays.
func (s *flowStream) next() error {
	for {
		if s.rec == nil || s.at == int(s.rec.NumRows()) {
			if s.rec != nil {
				s.rec.Release()
				s.rec, s.at = nil, 0
			}
			rec, err := s.in.Next()
			if errors.Is(err, io.EOF) {
				s.ended = true
				return nil
			}
			if err != nil {
				return err
			}
			s.rec = rec
			continue
		}
		i := s.at
		row := s.row
		s.at++
		s.row++
		service := columns.Named(s.rec, "service").(*array.String).Value(i)
		start, id := columns.Int64s(s.rec, "start_ns")[i], columns.Int64s(s.rec, "flow_id")[i]
		if s.id >= 0 && (service != s.service || (start > s.cut) != s.late) || !s.x.stays(service, id, s.copy) {
			continue
		}
		s.flowID, s.start = id, start+s.shift
		if s.id >= 0 {
			s.flowID = s.id + row
		}
		s.size, s.label, s.vnet = columns.Int64s(s.rec, "size_bytes")[i], service, columns.Named(s.rec, "vnet").(*array.String).Value(i)
		s.drawn = s.id >= 0 || columns.Named(s.rec, "synthetic_start").(*array.Boolean).Value(i)
		s.src, s.dst = s.x.hostsOf(service, columns.Int32s(s.rec, "src")[i], columns.Int32s(s.rec, "dst")[i])
		return nil
	}
}

func (s *flowStream) close() {
	if s.rec != nil {
		s.rec.Release()
	}
	_ = s.in.Close() // read to its end or given up: its errors were reported
}

func (b *flowColumns) add(s *flowStream) {
	b.id, b.size, b.start = append(b.id, s.flowID), append(b.size, s.size), append(b.start, s.start)
	b.src, b.dst = append(b.src, s.src), append(b.dst, s.dst)
	b.synthetic = append(b.synthetic, s.drawn)
	// The batch that the labels point into may be released before they are written.
	b.service, b.vnet = append(b.service, string([]byte(s.label))), append(b.vnet, string([]byte(s.vnet)))
}
