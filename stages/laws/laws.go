package laws

import (
	"fmt"
	"sync"

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
// It is used by one goroutine at a time: Begin for every run of flows, then Report.
type Checker struct {
	net    *topology.Network
	params simkernel.Params
	early  earlyCheck
	late   *lateCheck // nil: not checked
	// Times count from the start of the first flow: in ps, those of a trace, from 1970 on, would not fit.
	firstNS, lastNS int64
	flows           int64
	checks          sync.WaitGroup // of the flows of the last Begin
}

// New returns a checker for estimates of a network.
func New(n *topology.Network, p simkernel.Params) *Checker {
	c := &Checker{net: n, params: p, early: newEarlyCheck(n, p)}
	if p.Transport != simkernel.DCQCN {
		c.late = newLateCheck(n, p)
	}
	return c
}

// Begin checks flows, which come in start order. The laws are independent: each is checked by a goroutine of its own,
// which Wait, Report and the next Begin wait for. Until then the flows must not change. If a flow is not valid, none of
// them is checked.
func (c *Checker) Begin(flows []Flow) error {
	lastNS := c.lastNS
	for i := range flows {
		if err := c.valid(&flows[i], c.flows+int64(i) > 0, lastNS); err != nil {
			return err
		}
		lastNS = flows[i].StartNS
	}
	c.Wait()
	if len(flows) == 0 {
		return nil
	}
	if c.flows == 0 {
		c.firstNS = flows[0].StartNS
	}
	c.lastNS = lastNS
	c.flows += int64(len(flows))
	if c.late != nil { // first, since it takes the longest
		c.check(flows, c.late.add)
	}
	c.check(flows, c.early.add)
	return nil
}

// check gives the flows to one check, with times since the first start.
func (c *Checker) check(flows []Flow, add func(Flow)) {
	firstNS := c.firstNS
	c.checks.Go(func() {
		for i := range flows {
			since := flows[i]
			since.StartNS -= firstNS
			add(since)
		}
	})
}

// Wait returns when the flows of the last Begin are checked.
func (c *Checker) Wait() { c.checks.Wait() }

// valid checks a flow that begins not before lastNS, if it is not the first.
func (c *Checker) valid(f *Flow, notFirst bool, lastNS int64) error {
	if notFirst && f.StartNS < lastNS {
		return fmt.Errorf("flow row %d starts at %d ns, before the flow ahead of it (%d ns)", f.Row, f.StartNS, lastNS)
	}
	if f.FCTNS < 0 || f.SizeBytes <= 0 || len(f.Path) == 0 {
		return fmt.Errorf("flow row %d has %d bytes, an FCT of %d ns and %d hops", f.Row, f.SizeBytes, f.FCTNS, len(f.Path))
	}
	for _, id := range f.Path {
		if id < 0 || int(id) >= len(c.net.Links) {
			return fmt.Errorf("flow row %d crosses link %d of %d", f.Row, id, len(c.net.Links))
		}
	}
	return nil
}

// Report ends the check.
func (c *Checker) Report() Report {
	c.Wait()
	r := Report{Flows: c.flows, Early: c.early.finish(), Late: Finding{WorstLink: -1}}
	if c.late != nil {
		r.Late = c.late.finish()
	}
	return r
}
