package stages

import (
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// Paths are the paths of a chunk of flows, for observations that were made on other paths (FeedbackBuilder.Follow,
// Sampler.Follow): what a flow's packets observed at a link counts for the hop at which the flow crosses that link now.
// Nothing is known of the other hops, and what was observed at links that the flow has left does not count.
type Paths struct {
	width int     // most hops of a flow
	links []int32 // flow × width + hop
	hops  []int16 // by flow; 0: it has no path

	row  []int64 // the rows that were read
	hop  []int16
	link []int32
}

// PathColumns names the columns of table hops that Read reads.
func PathColumns() []string { return []string{"link_id", "flow_row", "hop", "hops"} }

// Read replaces the paths by those of rows firstRow to firstRow+rows-1 of table flows. It reads table hops, in any
// order; rows of other flows are skipped. A hop that is not on its path is an error.
func (p *Paths) Read(firstRow, rows int64, hops schema.Batches) error {
	p.row, p.hop, p.link, p.width = p.row[:0], p.hop[:0], p.link[:0], 0
	p.hops = resize(p.hops, int(rows))
	clear(p.hops)
	err := columns.ForEach(hops, func(rec arrow.Record) error {
		hop, count, link := columns.Int16s(rec, "hop"), columns.Int16s(rec, "hops"), columns.Int32s(rec, "link_id")
		for i, row := range columns.Int64s(rec, "flow_row") {
			if row < firstRow || row >= firstRow+rows {
				continue
			}
			if hop[i] < 0 || hop[i] >= count[i] {
				return fmt.Errorf("hops: flow row %d has hop %d, which is not on its path", row, hop[i])
			}
			p.row, p.hop, p.link = append(p.row, row-firstRow), append(p.hop, hop[i]), append(p.link, link[i])
			p.hops[row-firstRow] = count[i]
			p.width = max(p.width, int(count[i]))
		}
		return nil
	})
	p.links = resize(p.links, int(rows)*p.width)
	for i, f := range p.row {
		p.links[int(f)*p.width+int(p.hop[i])] = p.link[i]
	}
	return err
}

// of returns the links of a flow's path.
func (p *Paths) of(f int) []int32 { return p.links[f*p.width:][:p.hops[f]] }

// hopAt returns the hop at which a flow crosses a link; -1: it does not. was is the hop at which it did.
func (p *Paths) hopAt(f int, link int32, was int16) int {
	path := p.of(f)
	if int(was) < len(path) && path[was] == link {
		return int(was)
	}
	return slices.Index(path, link)
}
