package format

import (
	"strconv"

	"parsimon/stages/topology"
)

// numberOf returns the number that a name consists of, in its shortest form.
func numberOf(name string) (id int32, ok bool) {
	n, err := strconv.ParseInt(name, 10, 32)
	return int32(n), err == nil && n >= 0 && strconv.FormatInt(n, 10) == name
}

// idsOf assigns ids to nodes with different names. A name that is a number below the count of nodes becomes
// the id. The other nodes take their index, or the next free number. No number is therefore the name of one
// node and the id of another.
func idsOf(names []string) []int32 {
	ids := make([]int32, len(names))
	taken := make([]bool, len(names))
	for i, name := range names {
		ids[i] = -1
		if id, ok := numberOf(name); ok && int(id) < len(names) {
			ids[i] = id
			taken[id] = true
		}
	}
	next := 0
	for i := range ids {
		if ids[i] >= 0 {
			continue
		}
		for taken[next] {
			next++
		}
		ids[i] = int32(next)
		next++
	}
	return ids
}

// checkNames finds names that are numbers and also ids of other nodes. Such a "1" would be ambiguous.
func (d *draft) checkNames() {
	ids := make(map[int32]bool, len(d.nodes))
	for _, v := range d.nodes {
		ids[v.ID] = true
	}
	for i, v := range d.nodes {
		if id, ok := numberOf(v.Name); ok && id != v.ID && ids[id] {
			d.fault(
				d.nodeAt[i],
				topology.FaultSimilarNames,
				"node %d is named %q, which is the id of another node: name it "+
					"differently",
				v.ID,
				v.Name,
			)
		}
	}
}
