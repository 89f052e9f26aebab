package laws

import (
	"fmt"

	"parsimon/simkernel"
	"parsimon/stages/topology"
)

const (
	psPerNS = 1000

	// tolerancePS covers the rounding of starts and FCTs to ns.
	tolerancePS = 2 * psPerNS

	// MaterialShare is the part of an FCT from which on a contradiction counts.
	MaterialShare = 0.01
)

// A Flow is one flow of an estimate.
type Flow struct {
	Row            int64 // in table flows
	StartNS, FCTNS int64
	SizeBytes      int64
	Path           []int32 // link ids; not kept
}

// A Finding is what contradicts one law.
type Finding struct {
	Flows      int64   // that take part in contradictions of more than MaterialShare
	WorstNS    int64   // the largest contradiction
	WorstShare float64 // the largest contradiction relative to the longest FCT of those that it can be due to
	WorstLink  int32   // of WorstShare; -1: no contradiction
	WorstRow   int64   // likewise, a flow of it
}

// add notes that FCTs of up to fctPS are wrong by at least offPS, if that exceeds what rounding explains. It reports
// whether the contradiction is material.
func (f *Finding) add(link int32, row, offPS, fctPS int64) bool {
	if offPS <= tolerancePS {
		return false
	}
	share := float64(offPS) / float64(max(1, fctPS))
	f.WorstNS = max(f.WorstNS, offPS/psPerNS)
	if share > f.WorstShare {
		f.WorstShare, f.WorstLink, f.WorstRow = share, link, row
	}
	return share > MaterialShare
}

// A Report is what a Checker found.
type Report struct {
	Flows       int64 // that were checked
	Early, Late Finding
}

// A Checker holds the flows of an estimate against the laws. Its memory grows with the flows that are active at a time.
// It is used by one goroutine at a time: Add for every flow, then Report.
type Checker struct {
	net    *topology.Network
	params simkernel.Params
	early  earlyCheck
	late   *lateCheck // nil: not checked
	// Times count from the start of the first flow: in ps, those of a trace, from 1970 on, would not fit.
	firstNS, lastNS int64
	flows           int64
	trip            trip
}

// New returns a checker for estimates of a network.
func New(n *topology.Network, p simkernel.Params) *Checker {
	c := &Checker{net: n, params: p, early: newEarlyCheck(n)}
	if p.Transport != simkernel.DCQCN {
		c.late = newLateCheck(n, p)
	}
	return c
}

// Add checks one flow. Flows come in start order.
func (c *Checker) Add(f *Flow) error {
	if c.flows > 0 && f.StartNS < c.lastNS {
		return fmt.Errorf("flow row %d starts at %d ns, before the flow ahead of it (%d ns)", f.Row, f.StartNS, c.lastNS)
	}
	if f.FCTNS < 0 || f.SizeBytes <= 0 || len(f.Path) == 0 {
		return fmt.Errorf("flow row %d has %d bytes, an FCT of %d ns and %d hops", f.Row, f.SizeBytes, f.FCTNS, len(f.Path))
	}
	for _, id := range f.Path {
		if id < 0 || int(id) >= len(c.net.Links) {
			return fmt.Errorf("flow row %d crosses link %d of %d", f.Row, id, len(c.net.Links))
		}
	}
	if c.flows == 0 {
		c.firstNS = f.StartNS
	}
	c.lastNS = f.StartNS
	c.flows++
	c.trip.set(c.net, &c.params, f.SizeBytes, f.Path)
	since := *f
	since.StartNS -= c.firstNS
	c.early.add(&since, &c.trip)
	if c.late != nil {
		c.late.add(&since, &c.trip)
	}
	return nil
}

// Report ends the check.
func (c *Checker) Report() Report {
	r := Report{Flows: c.flows, Early: c.early.finish(), Late: Finding{WorstLink: -1}}
	if c.late != nil {
		r.Late = c.late.finish()
	}
	return r
}
