package laws

import (
	"math"

	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// earlyCheck sends the flows of each link in the order of their estimated ends.
type earlyCheck struct {
	trip  trip
	links []schedule
	found Finding
	late  map[int64]bool // rows of flows that end later than estimated at some link
}

func newEarlyCheck(n *topology.Network, p simkernel.Params) earlyCheck {
	return earlyCheck{trip: newTrip(n, p), links: make([]schedule, len(n.Links)), found: Finding{WorstLink: -1},
		late: map[int64]bool{}}
}

// schedule is what one link has sent up to now, and has yet to send.
type schedule struct {
	nowPS   int64
	future  heap[job] // by release
	ready   heap[job] // by end
	longest job       // by FCT, of those sent or ready without a pause
}

// job is a flow at a link, in ps.
type job struct{ end, work, fct, row int64 }

func (c *earlyCheck) add(f Flow) {
	t := &c.trip
	t.set(f.SizeBytes, f.Path)
	start := f.StartNS * psPerNS
	release, behind := start, int64(0)
	for h := range f.Path {
		behind += t.last[h] + t.delay[h]
	}
	for h, id := range f.Path {
		behind -= t.last[h] // from the end of the last packet's transmission here to its delivery
		l := &c.links[id]
		l.advance(id, start, c) // no later flow is released before this one starts
		l.future.push(release, job{start + f.FCTNS*psPerNS - behind, t.work(h), f.FCTNS * psPerNS, f.Row})
		behind -= t.delay[h]
		release += t.full[h] + t.delay[h]
	}
}

// advance sends until a time.
func (l *schedule) advance(id int32, toPS int64, c *earlyCheck) {
	for {
		if len(l.ready) == 0 {
			if len(l.future) == 0 || l.future[0].key > toPS {
				return
			}
			l.nowPS, l.longest = max(l.nowPS, l.future[0].key), job{}
		}
		for len(l.future) > 0 && l.future[0].key <= l.nowPS {
			j := l.future.pop()
			l.ready.push(j.end, j)
			if j.fct > l.longest.fct {
				l.longest = j
			}
		}
		next := toPS
		if len(l.future) > 0 {
			next = min(next, l.future[0].key)
		}
		j := &l.ready[0].value
		if done := l.nowPS + j.work; done <= next {
			l.nowPS = done
			if c.found.add(id, j.row, done-j.end, l.longest.fct) {
				c.late[j.row] = true
			}
			l.ready.pop()
			continue
		}
		j.work -= max(0, next-l.nowPS)
		l.nowPS = max(l.nowPS, next)
		if l.nowPS >= toPS {
			return
		}
	}
}

func (c *earlyCheck) finish() Finding {
	for id := range c.links {
		c.links[id].advance(int32(id), math.MaxInt64, c)
	}
	c.found.Flows = int64(len(c.late))
	return c.found
}
