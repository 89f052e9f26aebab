package network

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"parsimon/schema/together"
	"parsimon/simkernel"
)

// Results have one row per finished flow, ordered by time and then by row.
type Results struct {
	Row     []int64 // the flow's row in the workload, counted from 0 over all chunks
	Tag     []int32 // Flows.Tag
	StartNS []int64 // when it started
	FCTNS   []int64 // from its start to the delivery of its last byte, rounded up
	IdealNS []int64 // of the flow alone on its first path, with a window that never binds; at most FCTNS
	// The waits of flow i are in rows HopEnds[i-1]:HopEnds[i], one per hop. Hop 0 is the NIC, whose wait is
	// 0, because a packet exists only from the time at which it is sent.
	HopEnds    []int32
	WaitNS     []int64 // sum over the flow's packets of their waits in the hop's queue; at most MaxInt64
	LastWaitNS []int64 // wait of its last packet
	Marks      []int32 // number of its packets that the hop marked; 0 at hop 0
	// The numbers of packets that were retransmitted, and that were received after one that was sent later.
	// They are 0 if nothing is lost.
	Again, Reordered []int32
}

// resultsAtOnce is the number of flows that are collected before they are passed on.
const resultsAtOnce = 4096

// A resultPart has the results of flows that were delivered in one domain.
type resultPart struct {
	rows []resultRow
	hops []hopResult // of all rows, one after the other
}

// add appends a delivered flow.
func (r *resultPart) add(t *flowTable, slot int32, atPS int64) {
	info := &t.info[slot]
	r.rows = append(r.rows, resultRow{atPS: atPS, row: info.row, tag: info.tag, startPS: info.startPS,
		idealNS: info.idealNS, firstHop: int32(len(r.hops)), hops: info.hops})
	for h := info.firstHop; h < info.firstHop+info.hops; h++ {
		r.hops = append(r.hops, hopResult{t.stats[h], t.lastPS[h]})
	}
}

type resultRow struct {
	atPS, row, startPS, idealNS int64 // delivered at AtPS
	tag, firstHop, hops         int32
	again, reordered            int32
}

type hopResult struct {
	hopStat
	lastPS int64
}

// A collector sorts results and passes them on, in parallel with the simulation.
type collector struct {
	finished func(*Results) error
	parts    chan []resultPart // one per domain
	spare    sync.Pool         // of *[]resultPart: empty parts, for their memory
	failed   atomic.Bool       // finished has returned an error
	order    []resultRef
	merged   Results // memory
}

// A resultRef is a row of a part.
type resultRef struct {
	atPS, row  int64
	part, line int32
}

// run passes results on until parts is closed. After an error, which it returns, it continues to read.
func (c *collector) run() error {
	var err error
	for parts := range c.parts {
		if err == nil && c.finished != nil {
			err = together.Do(func() error { return c.finished(c.merge(parts)) })
			c.failed.Store(err != nil)
		}
		for i := range parts {
			parts[i].rows = parts[i].rows[:0]
			parts[i].hops = parts[i].hops[:0]
		}
		c.spare.Put(&parts)
	}
	return err
}

// merge sorts the rows of several domains. They are valid until the next call.
func (c *collector) merge(parts []resultPart) *Results {
	c.order = c.order[:0]
	for i := range parts {
		for k := range parts[i].rows {
			o := &parts[i].rows[k]
			c.order = append(c.order, resultRef{o.atPS, o.row, int32(i), int32(k)})
		}
	}
	slices.SortFunc(c.order, func(a, b resultRef) int {
		return cmp.Or(cmp.Compare(a.atPS, b.atPS), cmp.Compare(a.row, b.row))
	})
	r := &c.merged
	*r = Results{r.Row[:0], r.Tag[:0], r.StartNS[:0], r.FCTNS[:0], r.IdealNS[:0], r.HopEnds[:0], r.WaitNS[:0],
		r.LastWaitNS[:0], r.Marks[:0], r.Again[:0], r.Reordered[:0]}
	for _, ref := range c.order {
		p := &parts[ref.part]
		o := &p.rows[ref.line]
		r.Row = append(r.Row, o.row)
		r.Tag = append(r.Tag, o.tag)
		r.StartNS = append(r.StartNS, o.startPS/simkernel.PSPerNS)
		r.FCTNS = append(r.FCTNS, simkernel.CeilNS(o.atPS-o.startPS))
		r.IdealNS = append(r.IdealNS, o.idealNS)
		for _, h := range p.hops[o.firstHop:][:o.hops] {
			r.WaitNS = append(r.WaitNS, h.waitNS())
			r.LastWaitNS = append(r.LastWaitNS, h.lastPS/simkernel.PSPerNS)
			r.Marks = append(r.Marks, h.marks)
		}
		r.HopEnds = append(r.HopEnds, int32(len(r.WaitNS)))
		r.Again = append(r.Again, o.again)
		r.Reordered = append(r.Reordered, o.reordered)
	}
	return r
}

// passOn passes results on if there are least or more.
func (n *Network) passOn(c *collector, least int) {
	rows := 0
	for i := range n.domains {
		rows += len(n.domains[i].journal.results.rows)
	}
	if rows < least {
		return
	}
	parts := make([]resultPart, len(n.domains))
	if spare, ok := c.spare.Get().(*[]resultPart); ok {
		parts = *spare
	}
	for i := range n.domains {
		parts[i], n.domains[i].journal.results = n.domains[i].journal.results, parts[i]
	}
	c.parts <- parts
}
