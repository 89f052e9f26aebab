package sampling

import (
	"parsimon/schema/sizebin"
	"parsimon/stages/confidence"
)

// A Key names a group of flows.
type Key struct {
	By    confidence.GroupBy
	Label string // of the service or virtual network
	Bin   int    // of the size; sizebin.Count for all sizes
}

// all is the group of all flows.
var all = Key{confidence.ByNothing, "", sizebin.Count}

// binName returns the name of the size bin.
func (k Key) binName() string {
	if k.Bin == sizebin.Count {
		return sizebin.All
	}
	return sizebin.Bins()[k.Bin].Name
}

// String names the group without its size bin.
func (k Key) String() string {
	switch k.By {
	case confidence.ByService:
		return "service " + k.Label
	case confidence.ByVNet:
		return "vnet " + k.Label
	}
	return "all"
}
