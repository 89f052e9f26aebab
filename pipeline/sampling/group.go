package sampling

import (
	"parsimon/schema/sizebin"
	"parsimon/stages/confidence"
)

// A Key is a group of flows; Bin is sizebin.Count for all sizes.
type Key struct {
	By    confidence.GroupBy
	Label string
	Bin   int
}

// all is the group of all flows.
var all = Key{confidence.ByNothing, "", sizebin.Count}

func (k Key) binName() string {
	if k.Bin == sizebin.Count {
		return sizebin.All
	}
	return sizebin.Bins()[k.Bin].Name
}

// String is the group without its size bin.
func (k Key) String() string {
	switch k.By {
	case confidence.ByService:
		return "service " + k.Label
	case confidence.ByVNet:
		return "vnet " + k.Label
	}
	return "all"
}
