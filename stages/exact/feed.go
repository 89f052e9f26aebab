package exact

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel/network"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/workload"
)

// A feed passes table flows to the engine, in chunks.
type feed struct {
	rows     rowReader
	waits    *dependencyReader // nil: no flow waits for others
	classOf  func(f *workload.Row) uint8
	first    *network.Flows // chunk that was read before the simulation, or nil
	row      int64          // rows of table flows that have been read
	started  int64          // flows that the engine has received
	originNS int64          // start of the first flow
	chunk    network.Flows
}

// A rowReader reads table flows in parts of at most tables.SmallBatch rows.
type rowReader struct {
	in    schema.Batches
	batch arrow.Record   // nil before the first
	read  []workload.Row // all rows of the batch
	rest  []workload.Row // rows of the batch that next has not returned
}

// next returns the next rows, or io.EOF after the last. They are valid until the next call.
func (r *rowReader) next() ([]workload.Row, error) {
	if len(r.rest) == 0 {
		r.release()
		rows, batch, err := columns.Next(r.in, r.read)
		if err != nil {
			return nil, err
		}
		r.batch = batch
		r.read = rows
		r.rest = rows
	}
	rows := r.rest[:min(tables.SmallBatch, len(r.rest))]
	r.rest = r.rest[len(rows):]
	return rows, nil
}

// release releases the current batch of flows.
func (r *rowReader) release() {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
}

// nextFlows returns the next flows to simulate, or nil after the last. They are valid until the next call.
func (x *simulation) nextFlows() (*network.Flows, error) {
	first := x.feed.first
	if first != nil {
		x.feed.first = nil
		return first, nil
	}
	for {
		rows, err := x.feed.rows.next()
		if errors.Is(err, io.EOF) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.active.allRead = true
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if chunk, err := x.flowsOf(rows); err != nil || len(chunk.SizeBytes) > 0 {
			return chunk, err
		}
	}
}

// flowsOf returns the flows of a batch that have a path. They are valid until the next call.
func (x *simulation) flowsOf(batch []workload.Row) (*network.Flows, error) {
	c := &x.feed.chunk
	*c = network.Flows{SizeBytes: c.SizeBytes[:0], StartNS: c.StartNS[:0], PathEnds: c.PathEnds[:0],
		PathLinks: c.PathLinks[:0], Key: c.Key[:0], Class: c.Class[:0], Tag: c.Tag[:0]}
	x.mu.Lock()
	tags := x.active.newTags(c.Tag, len(batch))
	x.mu.Unlock()
	reported := 0
	packetHops := int64(0)
	for i := range batch {
		f := &batch[i]
		row := x.feed.row
		x.feed.row++
		begin := len(c.PathLinks)
		routed, err := x.addPath(c, f)
		if err != nil {
			return nil, fmt.Errorf("flow %d: %w", f.ID, err)
		}
		if !routed {
			x.stats.Unreachable++
			continue
		}
		of := &x.active.flows[tags[len(c.Tag)]]
		c.Tag = tags[:len(c.Tag)+1]
		path := c.PathLinks[begin:]
		*of = activeFlow{
			number: x.feed.started, row: row, id: f.ID, size: f.SizeBytes, start: f.StartNS, src: f.Src, dst: f.Dst,
			path: append(of.path[:0], path...), connection: f.Connection, background: f.Background,
		}
		if x.out.Report != nil {
			of.labels = f.Labels.Clone()
		}
		if err := x.addFlow(c, f, row); err != nil {
			return nil, err
		}
		packetHops += x.model.Params.Packets(f.SizeBytes) * int64(len(path))
		if x.reports(of) {
			reported++
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.active.free = append(x.active.free, tags[len(c.Tag):]...)
	x.active.awaited += reported
	x.stats.PacketHops += packetHops
	x.progress.expect(packetHops)
	return c, nil
}

// addPath appends the links of a flow's path to the chunk. A step of computation has none. routed is false if
// the flow has no path and the model counts such flows.
func (x *simulation) addPath(c *network.Flows, f *workload.Row) (routed bool, err error) {
	if x.feed.waits != nil && route.ComputeStep(f.Src, f.Dst, f.SizeBytes) {
		return true, nil
	}
	begin := len(c.PathLinks)
	c.PathLinks, err = x.model.Router.Path(f.Connection, f.Src, f.Dst, c.PathLinks)
	if x.model.Unreachable == step.CountUnreachable && x.feed.waits == nil && route.IsUnreachable(err) {
		return false, nil
	}
	if err != nil || x.routes == nil || len(c.PathLinks) == begin {
		return true, err
	}
	_, ends := x.routes.Last().Path(f.Connection, f.Src, f.Dst, nil)
	if ends != nil {
		err = fmt.Errorf("with the cables that go down and stay down it would never end: %w", ends)
	}
	return true, err
}

// addFlow appends a flow whose path is in the chunk.
func (x *simulation) addFlow(c *network.Flows, f *workload.Row, row int64) error {
	if x.feed.started == 0 {
		x.feed.originNS = f.StartNS
	}
	x.feed.started++
	c.SizeBytes = append(c.SizeBytes, f.SizeBytes)
	c.StartNS = append(c.StartNS, f.StartNS-x.feed.originNS)
	c.Key = append(c.Key, uint64(row))
	c.Class = append(c.Class, x.feed.classOf(f))
	c.PathEnds = append(c.PathEnds, int32(len(c.PathLinks)))
	if x.feed.waits == nil {
		return nil
	}
	return x.feed.waits.add(c, row)
}
