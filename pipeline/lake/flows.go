package lake

import (
	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
)

// chunkRows is how many flows data file n of table flows holds, and so how many one task of route or sample works on:
// few at first, so that small workloads have several tasks, and more the longer the workload turns out to be, so that a
// range of links is worth reading from every file. It is part of the lake's layout, not a setting: the tasks of
// different runs must be the same.
func chunkRows(n int) int64 {
	const first, most = 1 << 15, 1 << 20
	return min(most, int64(first)<<min(n/16, 5))
}

// A FlowWriter writes table flows, chunkRows(n) rows to data file n. It is a schema.Sink.
type FlowWriter struct {
	session *Session
	place   Place
	add     func(rows int64)
	open    *Writer
	rows    int64 // in the open file
	files   []DataFile
}

// NewFlowWriter writes the flows of a scenario or workload. add is called with the number of rows written.
func NewFlowWriter(s *Session, p Place, add func(rows int64)) *FlowWriter {
	return &FlowWriter{session: s, place: p, add: add}
}

// Share makes a committed file of another place the next one, if it is as long as a FlowWriter makes it and none is
// open.
func (c *FlowWriter) Share(d DataFile) (done bool, err error) {
	if c.open != nil || d.Rows != chunkRows(len(c.files)) {
		return false, nil
	}
	if d, err = c.session.Share(d, c.path()); err != nil {
		return false, err
	}
	c.files = append(c.files, d)
	c.add(d.Rows)
	return true, nil
}

func (c *FlowWriter) path() string { return c.place.File(schema.Flows, len(c.files)) }

// Write appends a batch, across files where it must.
func (c *FlowWriter) Write(rec arrow.Record) error {
	for at := int64(0); at < rec.NumRows(); {
		if c.open == nil {
			w, err := c.session.Create(schema.Flows, c.path())
			if err != nil {
				return err
			}
			c.open, c.rows = w, 0
		}
		limit := chunkRows(len(c.files))
		take := min(rec.NumRows()-at, limit-c.rows)
		slice := rec.NewSlice(at, at+take)
		err := c.open.Write(slice)
		slice.Release()
		if err != nil {
			return err
		}
		at += take
		c.rows += take
		c.add(take)
		if c.rows == limit {
			if err := c.closeFile(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *FlowWriter) closeFile() error {
	d, err := c.open.Commit()
	if err != nil {
		return err
	}
	c.files, c.open = append(c.files, d), nil
	return nil
}

// Finish commits the last file and returns all of them.
func (c *FlowWriter) Finish() ([]DataFile, error) {
	if c.open != nil {
		if err := c.closeFile(); err != nil {
			return nil, err
		}
	}
	return c.files, nil
}

// Abandon removes the file that is not finished. Callers defer it.
func (c *FlowWriter) Abandon() {
	if c.open != nil {
		c.open.Abandon()
	}
}
