package exact

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel/network"
)

// dependencyBlock is the number of consecutive flows that share bounds in a dependencyReader.
const dependencyBlock = 4096

// A dependencyReader returns the flows that each flow of a workload waits for. Table dependencies is sorted
// by flow_row.
type dependencyReader struct {
	in     schema.Batches
	rows   []dependency       // rows of the current batch that have not been returned
	bounds []dependencyBounds // by block of flows: for the block and all later blocks
}

// dependencyBounds has network.Flows.KeepRow and HeldBy.
type dependencyBounds struct{ keepRow, heldBy int64 }

type dependency struct {
	Row   int64 `col:"flow_row"`
	After int64 `col:"after_row"`
	Delay int64 `col:"delay_ns"`
}

// newDependencies reads the table once to compute the bounds, and opens it again.
func newDependencies(open func() schema.Batches, flows int64) (*dependencyReader, error) {
	none := dependencyBounds{math.MaxInt64, math.MaxInt64}
	d := &dependencyReader{bounds: slices.Repeat([]dependencyBounds{none}, int(flows/dependencyBlock+2))}
	row := int64(-1)   // the current flow; the first has none before it
	latest := int64(0) // the last flow that it waits for
	next := func(to int64) {
		if row >= 0 {
			d.bound(row).heldBy = min(d.bound(row).heldBy, latest)
		}
		// The flows in between have no dependencies.
		for free := row + 1; free < to; free = (free/dependencyBlock + 1) * dependencyBlock {
			d.bound(free).heldBy = 0
		}
		row = to
		latest = 0
	}
	err := columns.Each(open(), func(r *dependency) error {
		if r.Row < row || r.Row >= flows || r.After < 0 || r.After >= flows || r.After == r.Row || r.Delay < 0 {
			return fmt.Errorf("dependencies: flow row %d waits for row %d and %d ns, out of order or of range", r.Row,
				r.After, r.Delay)
		}
		if r.Row != row {
			next(r.Row)
		}
		latest = max(latest, r.After)
		d.bound(r.Row).keepRow = min(d.bound(r.Row).keepRow, r.After)
		return nil
	})
	next(flows)
	for i := len(d.bounds) - 2; i >= 0; i-- {
		b := &d.bounds[i]
		later := d.bounds[i+1]
		b.keepRow = min(b.keepRow, later.keepRow)
		b.heldBy = min(b.heldBy, later.heldBy)
	}
	d.in = open()
	return d, err
}

func (d *dependencyReader) bound(row int64) *dependencyBounds {
	return &d.bounds[row/dependencyBlock]
}

// add appends to a chunk what its next flow, in a row of table flows, waits for.
func (d *dependencyReader) add(c *network.Flows, row int64) error {
	if len(c.AfterEnds) == 0 {
		c.KeepRow = d.bound(row).keepRow
		c.HeldBy = d.bound(row).heldBy
	}
	for {
		for ; len(d.rows) > 0 && d.rows[0].Row == row; d.rows = d.rows[1:] {
			c.After = append(c.After, d.rows[0].After)
			c.DelayNS = append(c.DelayNS, d.rows[0].Delay)
		}
		if d.in == nil || len(d.rows) > 0 {
			c.AfterEnds = append(c.AfterEnds, int32(len(c.After)))
			return nil
		}
		rows, rec, err := columns.Next(d.in, d.rows)
		switch {
		case errors.Is(err, io.EOF):
			d.in = nil
		case err != nil:
			return err
		default:
			d.rows = rows
			rec.Release()
		}
	}
}
