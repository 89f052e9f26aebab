package stages

import (
	"fmt"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// A hopOfFlow is what a table says of a flow at a hop.
type hopOfFlow struct {
	flow     int32 // of the chunk
	hop      int16
	link     int32
	observed int32   // of observations: number of the encoded blocks in observationIndex
	delayNS  float64 // of contributions: what the hop adds; of observations: by the hop's case, of the whole path
	lastNS   int64   // wait of the last packet; 0 for hop 0, whose only wait is the NIC wait
	meanNS   float64 // wait, mean over the packets
	marks    int64
}

// A hopIndex finds the rows of a table by flow, of a chunk of flows, and hop.
type hopIndex struct {
	table    string // for errors
	firstRow int64
	rows     []hopOfFlow // in the order in which they were read
	place    []int32     // by flow × width + hop: row; -1: none
	hops     []int16     // by flow of the chunk: length of its path; 0: it has no row
	width    int         // most hops of a flow
	flow     []hopOfFlow // that was asked for last
	path     []int32     // its links
}

// begin begins the rows of a chunk of flows.
func (x *hopIndex) begin(table schema.Table, firstRow, flows int64) {
	x.table, x.firstRow, x.rows, x.width = table.Name, firstRow, x.rows[:0], 0
	x.hops = resize(x.hops, int(flows))
	clear(x.hops)
}

// add adds what a row says of a flow at a hop, unless the flow is of another chunk.
func (x *hopIndex) add(row int64, hop, hops int16, is hopOfFlow) error {
	if row < x.firstRow || row-x.firstRow >= int64(len(x.hops)) {
		return nil
	}
	if hop < 0 || hop >= hops {
		return fmt.Errorf("%s: flow row %d has hop %d, which is not on its path of %d", x.table, row, hop, hops)
	}
	is.flow, is.hop = int32(row-x.firstRow), hop
	x.width, x.hops[is.flow] = max(x.width, int(hop)+1), hops
	x.rows = append(columns.Grow(x.rows, 1), is)
	return nil
}

// end ends the rows. Of several rows of a flow and hop it takes the first.
func (x *hopIndex) end() {
	x.place = resize(x.place, len(x.hops)*x.width)
	for i := range x.place {
		x.place[i] = -1
	}
	for i := range x.rows {
		if place := &x.place[int(x.rows[i].flow)*x.width+int(x.rows[i].hop)]; *place < 0 {
			*place = int32(i)
		}
	}
}

// of returns the hops of a flow, and sets path, valid until the next call. A hop of its path without a row is an error.
func (x *hopIndex) of(f int) ([]hopOfFlow, error) {
	x.flow, x.path = x.flow[:0], x.path[:0]
	hops := int(x.hops[f])
	for _, at := range x.place[f*x.width:][:min(hops, x.width)] {
		if at >= 0 {
			x.flow, x.path = append(x.flow, x.rows[at]), append(x.path, x.rows[at].link)
		}
	}
	if len(x.flow) != hops {
		return nil, fmt.Errorf("%s has %d of the %d hops of flow row %d", x.table, len(x.flow), hops, x.firstRow+int64(f))
	}
	return x.flow, nil
}

// observationIndex is a hopIndex with the encoded blocks of table hop_observations.
type observationIndex struct {
	hopIndex
	encoded columns.Arena
}

// observation is a row of table hop_observations.
type observation struct {
	Row      int64  `col:"flow_row"`
	Hop      int16  `col:"hop"`
	Hops     int16  `col:"hops"`
	Link     int32  `col:"link_id"`
	Observed []byte `col:"observed"`
	Delay    int64  `col:"delay_ns"`
}

// read reads the chunk's rows.
func (x *observationIndex) read(firstRow, flows int64, in schema.Batches) error {
	x.begin(schema.HopObservations, firstRow, flows)
	x.encoded.Reset()
	err := columns.Each(in, func(r *observation) error {
		before := len(x.rows)
		is := hopOfFlow{link: r.Link, observed: int32(before), delayNS: float64(r.Delay)}
		err := x.add(r.Row, r.Hop, r.Hops, is)
		if len(x.rows) > before {
			x.encoded.Add(r.Observed)
		}
		return err
	})
	x.end()
	return err
}
