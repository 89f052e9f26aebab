package diagnose

import (
	"fmt"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
)

// A flowSet is a set of rows of table flows, with a bit for each row.
type flowSet []uint64

func newFlowSet(flows int64) flowSet { return make(flowSet, (flows+63)/64) }

func (s flowSet) has(row int64) bool { return row/64 < int64(len(s)) && s[row/64]>>(row%64)&1 != 0 }

func (s flowSet) add(row int64) { s[row/64] |= 1 << (row % 64) }

// crossTwice returns the flows that cross two links whose load is loadedLink or more. It reads only the hops
// of such links, and of a few links between them. files is the number of files of table hops. read streams
// the rows of a range of links, and possibly others.
func crossTwice(n *topology.Network, loads *route.Loads, flows int64, files int,
	read func(links step.Range) schema.Batches) (twice flowSet, err error) {
	type hop struct {
		Link int32 `col:"link_id"`
		Row  int64 `col:"flow_row"`
	}
	loaded := names.Of(n.Links, func(l topology.Link) bool { return loads.Load(l) >= loadedLink })
	once := newFlowSet(flows)
	twice = newFlowSet(flows)
	for _, links := range loadedRanges(loads, loaded, int64(files)) {
		err := columns.EachRows(read(links), tables.SmallBatch, func(part []hop) error {
			for _, h := range part {
				switch {
				case int64(h.Link) < links.Lo || int64(h.Link) >= links.Hi || !loaded[h.Link]:
				case h.Row < 0 || h.Row >= flows:
					return fmt.Errorf("hops: link %d has flow row %d, of %d flows", h.Link, h.Row, flows)
				case once.has(h.Row):
					twice.add(h.Row)
				default:
					once.add(h.Row)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return twice, nil
}

// Opening a file takes about as long as reading rowsPerOpening rows. This is an estimate.
const rowsPerOpening = 10_000

// loadedRanges returns ranges of links that include all loaded ones. A range continues across links that are
// not loaded if their hops are read faster than the files are opened for another range.
func loadedRanges(loads *route.Loads, loaded []bool, files int64) (all []step.Range) {
	between := int64(0) // hops of the links since the last loaded one
	for id := range int64(len(loaded)) {
		last := len(all) - 1
		switch {
		case !loaded[id]:
			between += loads.Links[id].Flows
			continue
		case last >= 0 && between < rowsPerOpening*files:
			all[last].Hi = id + 1
		default:
			all = append(all, step.Range{Lo: id, Hi: id + 1})
		}
		between = 0
	}
	return all
}
