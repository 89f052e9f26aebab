package topology

// A nodeIndex maps a node id to the node's index in Network.Nodes. Ids are usually dense; then the
// map is an array.
type nodeIndex struct {
	dense  []int32
	sparse map[int32]int32
}

// newNodeIndex expects nodes in ascending order of id.
func newNodeIndex(nodes []Node) nodeIndex {
	var x nodeIndex
	if len(nodes) == 0 {
		return x
	}
	top := int(nodes[len(nodes)-1].ID)
	if top < 4*len(nodes)+1<<16 {
		x.dense = make([]int32, top+1)
		for i := range x.dense {
			x.dense[i] = -1
		}
		for i, v := range nodes {
			x.dense[v.ID] = int32(i)
		}
		return x
	}
	x.sparse = make(map[int32]int32, len(nodes))
	for i, v := range nodes {
		x.sparse[v.ID] = int32(i)
	}
	return x
}

// of returns the index of the node with that id, or -1.
func (x *nodeIndex) of(id int32) int32 {
	if x.dense != nil {
		if uint(id) < uint(len(x.dense)) {
			return x.dense[id]
		}
		return -1
	}
	if i, ok := x.sparse[id]; ok {
		return i
	}
	return -1
}
