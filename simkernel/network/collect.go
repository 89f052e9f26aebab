package network

import (
	"cmp"
	"slices"
	"sync/atomic"

	"parsimon/simkernel"
)

// Results are results, one row per finished flow, by time and then row.
type Results struct {
	Row     []int64 // the flow's row in the workload, counted from 0 over all chunks
	StartNS []int64 // when it started
	FCTNS   []int64 // from its start to the delivery of its last byte, rounded up
	IdealNS []int64 // of the flow alone on its first path, with a window that never binds; at most FCTNS
	// The waits of flow i are in rows HopEnds[i-1]:HopEnds[i], one per hop. Hop 0 is the NIC, whose wait is 0: a packet
	// exists from the time when it is sent.
	HopEnds    []int32
	WaitNS     []int64 // sum over the flow's packets of their waits in the hop's queue
	LastWaitNS []int64 // wait of its last packet
	Marks      []int32 // number of its packets that the hop marked; 0 at hop 0
	// Packets that were sent again, and packets received after one that was sent later; 0 where nothing is lost.
	Again, Reordered []int32
}

// resultsAtOnce is how many flows are collected before they are passed on.
const resultsAtOnce = 4096

// A resultPart is the results of flows that were delivered in one domain.
type resultPart struct {
	Results
	atPS []int64 // when the flows were delivered
}

// add appends a delivered flow.
func (r *resultPart) add(t *flowTable, slot int32, atPS int64) {
	info := &t.info[slot]
	for h := info.firstHop; h < info.firstHop+info.hops; h++ {
		r.WaitNS = append(r.WaitNS, t.stats[h].waitPS/simkernel.PSPerNS)
		r.LastWaitNS = append(r.LastWaitNS, t.lastPS[h]/simkernel.PSPerNS)
		r.Marks = append(r.Marks, t.stats[h].marks)
	}
	r.addRow(info.row, info.startPS, atPS, info.idealNS)
}

// addRow appends a row, whose hops have been appended.
func (r *resultPart) addRow(row, startPS, atPS, idealNS int64) {
	r.atPS = append(r.atPS, atPS)
	r.Row = append(r.Row, row)
	r.StartNS = append(r.StartNS, startPS/simkernel.PSPerNS)
	r.FCTNS = append(r.FCTNS, simkernel.CeilNS(atPS-startPS))
	r.IdealNS = append(r.IdealNS, idealNS)
	r.HopEnds = append(r.HopEnds, int32(len(r.WaitNS)))
	r.Again, r.Reordered = append(r.Again, 0), append(r.Reordered, 0)
}

// A collector orders results and passes them on, beside the simulation.
type collector struct {
	finished func(*Results) error
	parts    chan []resultPart // one per domain
	failed   atomic.Bool       // finished has returned an error
	order    []resultRef
}

type resultRef struct {
	atPS, row  int64
	part, line int32
}

// run passes results on until parts is closed. It reads on after an error, which it returns.
func (c *collector) run() error {
	var err error
	for parts := range c.parts {
		if err == nil && c.finished != nil {
			err = c.finished(c.merge(parts))
			c.failed.Store(err != nil)
		}
	}
	return err
}

// merge sorts the rows of several domains.
func (c *collector) merge(parts []resultPart) *Results {
	c.order = c.order[:0]
	for i := range parts {
		for k, atPS := range parts[i].atPS {
			c.order = append(c.order, resultRef{atPS, parts[i].Row[k], int32(i), int32(k)})
		}
	}
	slices.SortFunc(c.order, func(a, b resultRef) int {
		return cmp.Or(cmp.Compare(a.atPS, b.atPS), cmp.Compare(a.row, b.row))
	})
	r := &Results{}
	for _, o := range c.order {
		p, begin := &parts[o.part], int32(0)
		if o.line > 0 {
			begin = p.HopEnds[o.line-1]
		}
		end := p.HopEnds[o.line]
		r.Row = append(r.Row, o.row)
		r.StartNS = append(r.StartNS, p.StartNS[o.line])
		r.FCTNS = append(r.FCTNS, p.FCTNS[o.line])
		r.IdealNS = append(r.IdealNS, p.IdealNS[o.line])
		r.WaitNS = append(r.WaitNS, p.WaitNS[begin:end]...)
		r.LastWaitNS = append(r.LastWaitNS, p.LastWaitNS[begin:end]...)
		r.Marks = append(r.Marks, p.Marks[begin:end]...)
		r.HopEnds = append(r.HopEnds, int32(len(r.WaitNS)))
		r.Again, r.Reordered = append(r.Again, p.Again[o.line]), append(r.Reordered, p.Reordered[o.line])
	}
	return r
}
