package exact

import (
	"slices"

	"parsimon/simkernel"
	"parsimon/stages/step"
)

// alone computes times of flows that are alone in the network. It must not be used by several goroutines at a
// time.
type alone struct {
	params *simkernel.Params
	links  []simkernel.IdealLink // by link id
	ideal  simkernel.IdealPath
	path   []int32 // the path of ideal
}

func newAlone(m *step.Model) *alone {
	a := &alone{params: &m.Params}
	for _, l := range m.Network.Links {
		a.links = append(a.links, m.Params.IdealLink(l.BandwidthBps, l.DelayNS))
	}
	return a
}

// setPath makes ideal compute the FCT on a path.
func (a *alone) setPath(path []int32) {
	if slices.Equal(path, a.path) {
		return
	}
	a.path = append(a.path[:0], path...)
	a.ideal.Reset(a.params)
	for _, l := range path {
		a.ideal.AddLink(&a.links[l])
	}
}

// idealNS returns the FCT of a flow, in ns.
func (a *alone) idealNS(path []int32, sizeBytes int64) int64 {
	a.setPath(path)
	return a.ideal.FCTNS(sizeBytes)
}

// windowNS returns the delay of a flow, in ns, that is due to a window smaller than the path needs.
func (a *alone) windowNS(path []int32, sizeBytes int64) int64 {
	a.setPath(path)
	return a.params.WindowDelayNS(a.ideal.Path(), sizeBytes)
}
