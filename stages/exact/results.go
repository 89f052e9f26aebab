package exact

import (
	"errors"
	"sync"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel/network"
	"parsimon/stages/tables"
)

type hopRow struct {
	FlowRow       int64 `col:"flow_row"`
	Hop           int16 `col:"hop"`
	LinkID        int32 `col:"link_id"`
	WaitNS        int64 `col:"wait_ns"`
	LastWaitNS    int64 `col:"last_wait_ns"`
	PacketsMarked int32 `col:"packets_marked"`
}

var (
	fctTable = columns.TableOf[tables.SlowdownRow](schema.ExactFCTs)
	hopTable = columns.TableOf[hopRow](schema.ExactHops)
)

// results are rows that have not been written.
type results struct {
	fcts []tables.SlowdownRow
	hops []hopRow
}

// take receives the flows that have finished.
func (x *simulation) take(r *network.Results) error {
	finished := int64(0)
	x.mu.Lock()
	from := int32(0)
	for i, tag := range r.Tag {
		f := &x.active.flows[tag]
		to := r.HopEnds[i]
		for h := from; h < to; h++ {
			x.waitNS[f.path[h-from]].Add(r.WaitNS[h])
		}
		finished += x.model.Params.Packets(f.size) * int64(len(f.path))
		if x.reports(f) {
			x.active.awaited--
			x.stats.Flows++
			row := f.slowdown()
			row.StartNS = x.feed.originNS + r.StartNS[i]
			row.IdealNS = r.IdealNS[i]
			row.FCTNS = r.FCTNS[i]
			row.Slowdown = 1
			row.Retransmissions = r.Again[i]
			row.Reordered = r.Reordered[i]
			x.stats.Retransmissions += int64(r.Again[i])
			x.stats.Reordered += int64(r.Reordered[i])
			if len(f.path) > 0 {
				row.WindowNS = min(x.alone.windowNS(f.path, f.size), row.FCTNS-row.IdealNS)
				row.Slowdown = float64(row.FCTNS) / float64(row.IdealNS)
			}
			x.stats.LastEndNS = max(x.stats.LastEndNS, row.StartNS+row.FCTNS)
			x.results.fcts = append(x.results.fcts, row)
			for h := from; h < to && x.out.Hops != nil; h++ {
				x.results.hops = append(x.results.hops, hopRow{
					FlowRow:       f.row,
					Hop:           int16(h - from),
					LinkID:        f.path[h-from],
					WaitNS:        r.WaitNS[h],
					LastWaitNS:    r.LastWaitNS[h],
					PacketsMarked: r.Marks[h],
				})
			}
		}
		f.number = -1
		from = to
	}
	x.active.free = append(x.active.free, r.Tag...)
	ended := x.options.Counts != nil && x.active.allRead && x.active.awaited == 0
	x.mu.Unlock()
	x.progress.add(0, finished)
	if ended {
		return errCounted
	}
	if len(x.results.fcts) < tables.SmallBatch && len(x.results.hops) < tables.SmallBatch {
		return nil
	}
	return x.flush()
}

// errCounted ends a simulation once all flows that count have finished.
var errCounted = errors.New("all flows that count have finished")

// flush writes the results, or reports them.
func (x *simulation) flush() error {
	report := x.out.Report
	if report == nil {
		report = func(rows []tables.SlowdownRow) error { return fctTable.Write(x.out.FCTs, rows) }
	}
	err := report(x.results.fcts)
	if err == nil && x.out.Hops != nil {
		err = hopTable.Write(x.out.Hops, x.results.hops)
	}
	x.results.fcts = x.results.fcts[:0]
	x.results.hops = x.results.hops[:0]
	return err
}

// A progress reports the packet-hops that have been simulated. Several goroutines may use it.
type progress struct {
	report func(packetHops int64) // or nil

	mu              sync.Mutex
	expected        int64 // packet-hops of the flows that the engine has received
	items, finished int64 // see add
	reported        int64
}

// expect adds packet-hops of flows that the engine receives.
func (p *progress) expect(packetHops int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected += packetHops
}

// add adds items that the engine has simulated, two per packet-hop: a packet, and its ACK on the way back.
// finished is the number of packet-hops of flows that have finished. Without items, the progress bar does not
// move until the first large flow finishes.
func (p *progress) add(items, finished int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items += items
	p.finished += finished
	now := max(p.finished, min(p.items/2, p.expected))
	if p.report != nil && now > p.reported {
		p.report(now - p.reported)
		p.reported = now
	}
}
