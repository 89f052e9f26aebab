package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
)

// SideOf names an estimate.
func SideOf(e *pipeline.Estimation) Side { return Side{string(e.ID()), e.Variant().String()} }

// A join is two estimates whose flows are joined. Both tables slowdowns are sorted by start and flow id: one pass over
// both finds the flows that are in both. Flows that wait for others start at other times in each, and are sorted by
// row: the same row is the same flow.
type join struct {
	base, other *side
	byRow       bool
}

// A side is an estimate as it was committed when it was opened: another process that works on the scenario meanwhile
// may do stages again.
type side struct {
	*pipeline.Estimation
	committed []lake.DataFile
	verified  map[string]bool // tables, by name
}

func openJoin(l *lake.Lake, base, other Side) (j *join, err error) {
	j = &join{}
	if j.base, err = openSide(l, base); err == nil {
		j.other, err = openSide(l, other)
	}
	if err != nil {
		return j, err
	}
	a, err := j.base.Generated()
	b, otherErr := j.other.Generated()
	if j.byRow = a.Closed() && b.Closed(); a.Closed() != b.Closed() && err == nil && otherErr == nil {
		return j, fmt.Errorf("flows wait for others in one of %s and %s: such a scenario is compared with one of the same "+
			"flows that wait, too", base.Scenario, other.Scenario)
	}
	return j, errors.Join(err, otherErr)
}

func openSide(l *lake.Lake, s Side) (*side, error) {
	model, err := pipeline.OpenModel(l, s.Scenario)
	if err != nil {
		return nil, err
	}
	v, err := pipeline.ParseVariant(s.Variant)
	if err != nil {
		return nil, err
	}
	m, _, err := l.ReadManifest(lake.Place{Scenario: model.ID(), Variant: s.Variant})
	if err != nil {
		return nil, err
	}
	opened := &side{pipeline.ReadOnly(model, v, pipeline.Settings{}), m.Files, map[string]bool{}}
	_, err = opened.Files(schema.Slowdowns)
	return opened, err
}

// Files are the committed data files of a table, verified once.
func (s *side) Files(t schema.Table) ([]lake.DataFile, error) {
	files := lake.FilesOf(s.committed, t)
	if len(files) == 0 {
		return nil, fmt.Errorf("scenario %s has no table %s of variant %s: run it again", s.ID(), t.Name, s.Variant())
	}
	if s.verified[t.Name] {
		return files, nil
	}
	for _, f := range files {
		if err := s.Lake.Check(f); err != nil {
			return nil, fmt.Errorf("scenario %s, variant %s: %w: run it again to repair it", s.ID(), s.Variant(), err)
		}
	}
	s.verified[t.Name] = true
	return files, nil
}

// Read streams columns of a table. The caller closes the stream.
func (s *side) Read(t schema.Table, names []string) (schema.Batches, error) {
	files, err := s.Files(t)
	if err != nil {
		return nil, err
	}
	return s.Lake.Read(t, files, names, nil), nil
}

// flows are the flows of either side that have an estimate.
func (j *join) flows() (base, other int64) {
	for _, of := range []struct {
		s *side
		n *int64
	}{{j.base, &base}, {j.other, &other}} {
		for _, f := range lake.FilesOf(of.s.committed, schema.Slowdowns) {
			*of.n += f.Rows
		}
	}
	return base, other
}

// A pair is a flow that is in both estimates. Its strings are valid during the call that it is given to.
type pair struct {
	row, otherRow int64 // of table flows of either scenario
	service, vnet string
	sizeBytes     int64
	hops          int16   // in the base
	base, other   float64 // slowdowns

	baseFCT, otherFCT     int64 // ns
	baseIdeal, otherIdeal int64 // ns
}

// each calls do for every flow that is in both, in the order of the base's flows.
func (j *join) each(ctx context.Context, do func(p *pair)) error {
	a, err := newCursor(j.base)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := newCursor(j.other)
	if err != nil {
		return err
	}
	defer b.close()
	for n := 0; a.ok && b.ok; n++ {
		if n%65_536 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		switch order := a.compare(b, j.byRow); {
		case order < 0:
			err = a.next()
		case order > 0:
			err = b.next()
		default:
			if a.size[a.at] == b.size[b.at] && a.id[a.at] == b.id[b.at] {
				do(&pair{a.row[a.at], b.row[b.at], a.service.Value(a.at), a.vnet.Value(a.at), a.size[a.at], a.hops[a.at],
					a.slowdown[a.at], b.slowdown[b.at], a.fct[a.at], b.fct[b.at], a.ideal[a.at], b.ideal[b.at]})
			}
			if err = a.next(); err == nil {
				err = b.next()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A cursor is at a row of table slowdowns.
type cursor struct {
	in   schema.Batches
	rec  arrow.Record // the present batch; nil before the first
	at   int
	ok   bool // there is a row
	id   []int64
	row  []int64
	size []int64

	start, fct, ideal []int64
	hops              []int16
	slowdown          []float64
	service, vnet     *array.String
}

func newCursor(e *side) (*cursor, error) {
	in, err := e.Read(schema.Slowdowns,
		[]string{"flow_id", "flow_row", "service", "vnet", "size_bytes", "start_ns", "hops", "slowdown",
			"fct_ns", "ideal_ns"})
	if err != nil {
		return nil, err
	}
	c := &cursor{in: in, at: -1}
	if err := c.next(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// next goes to the next row; ok is false behind the last.
func (c *cursor) next() error {
	c.at++
	if c.rec != nil && c.at < int(c.rec.NumRows()) {
		return nil
	}
	if c.rec != nil {
		c.rec.Release()
		c.rec = nil
	}
	rec, err := c.in.Next()
	c.ok = err == nil
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	c.rec, c.at = rec, 0
	c.id, c.row = columns.Int64s(rec, "flow_id"), columns.Int64s(rec, "flow_row")
	c.size, c.start = columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
	c.fct, c.ideal = columns.Int64s(rec, "fct_ns"), columns.Int64s(rec, "ideal_ns")
	c.hops, c.slowdown = columns.Int16s(rec, "hops"), columns.Float64s(rec, "slowdown")
	c.service, c.vnet = columns.Text(rec, "service"), columns.Text(rec, "vnet")
	return nil
}

// compare orders two rows by start and flow id, or by row.
func (c *cursor) compare(o *cursor, byRow bool) int {
	if byRow {
		return cmp.Compare(c.row[c.at], o.row[o.at])
	}
	return cmp.Or(cmp.Compare(c.start[c.at], o.start[o.at]), cmp.Compare(c.id[c.at], o.id[o.at]))
}

func (c *cursor) close() {
	if c.rec != nil {
		c.rec.Release()
		c.rec = nil
	}
	_ = c.in.Close() // read to its end, or an error is reported
}

// tailDelays adds up, by link id, what each link contributes to the FCTs of some flows, given by ascending row, in ns.
// Sums are of whole 1/1000 ns: they are the same in any order.
func tailDelays(ctx context.Context, e *side, rows []int64) ([]float64, error) {
	sums := make([]int64, len(e.Network.Links))
	in, err := e.Read(schema.HopContributions, []string{"flow_row", "link_id", "delay_ns"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // read to its end, or an error is reported
	wanted := map[int64]struct{}{}
	for _, r := range rows {
		wanted[r] = struct{}{}
	}
	err = columns.ForEach(in, func(rec arrow.Record) error {
		row, link, delay := columns.Int64s(rec, "flow_row"), columns.Int32s(rec, "link_id"), columns.Float64s(rec, "delay_ns")
		for i := range row {
			if _, ok := wanted[row[i]]; ok {
				sums[link[i]] += int64(math.Round(delay[i] * 1000))
			}
		}
		return ctx.Err()
	})
	out := make([]float64, len(sums))
	for id, sum := range sums {
		out[id] = float64(sum) / 1000
	}
	return out, err
}

// linkLoads are the loads of all links, by link id.
func linkLoads(e *side) ([]float64, error) {
	loads := make([]float64, len(e.Network.Links))
	in, err := e.Read(schema.LinkStats, []string{"link_id", "load"})
	if err != nil {
		return nil, err
	}
	return loads, columns.Consume(in, func(rec arrow.Record) error {
		load := columns.Float64s(rec, "load")
		for i, id := range columns.Int32s(rec, "link_id") {
			loads[id] = load[i]
		}
		return nil
	})
}
