package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parsimon/schema/columns"
	"parsimon/schema/units"
	"parsimon/stages/topology"
)

// A CounterKind is what the bytes of a row of interface counters are.
type CounterKind int

// The kinds of counters.
const (
	Cumulative  CounterKind = iota // since the interface was started, as SNMP has them
	PerInterval                    // since the previous row of the same port
)

// CounterKinds are the names of the kinds, by CounterKind.
var CounterKinds = []string{"cumulative", "interval"}

// CounterOptions say how a file of counters is read.
type CounterOptions struct {
	File string
	Kind CounterKind
	// Columns has the names of columns, by time, device, port, bytes and direction. For those that it lacks,
	// common names are tried.
	Columns map[string]string
}

// Reasons for which a row of counters is set aside.
const (
	badTime       = "time that cannot be read"
	badBytes      = "bytes that are no whole number from 0"
	badDirection  = "direction other than in and out"
	unknownDevice = "device that the network does not have"
	unknownPort   = "port that no link has"
	sharedPort    = "port that several links have"
	repeated      = "port and time of a row before"
	otherEnd      = "receiving end of a link whose sender has counters, too"
	firstOfPort   = "first row of its port, before which nothing is known"
	outsideLog    = "outside the part of the log"
	afterGap      = "after a gap: rows of the port are missing"
	afterReset    = "after a reset: the counter is lower than before"
	manyWraps     = "32-bit counter that may have wrapped more than once"
	tooFast       = "more bytes than the link can carry"
)

// A SetAside counts the rows of counters that are not used, for one reason.
type SetAside struct {
	Reason string `json:"reason"`
	Rows   int64  `json:"rows"`
	Line   int64  `json:"first_line"`
}

// Counters are the bytes that interfaces counted, by link and time.
//
//	rows = used + rows that are set aside
//
// If both ends of a link count its bytes, those of the sender are used.
type Counters struct {
	File     string     `json:"file"`
	Rows     int64      `json:"rows"`
	Used     int64      `json:"used"`
	SetAside []SetAside `json:"set_aside,omitempty"`
	Wraps    int64      `json:"wraps"`         // rows at which a 32-bit counter has wrapped
	Unsorted int64      `json:"unsorted_rows"` // rows that are earlier than one before them of the same port
	// Links is the number of links with counters.
	Links int `json:"links"`

	deltas map[int32][]delta
	at     map[int32]int // of the first delta that ends after the last slot
	ids    []int32       // links with deltas, in order
}

// A delta has the bytes of a link between two times.
type delta struct {
	fromNS, toNS int64
	bytes        float64
}

// A sample is a row of counters.
type sample struct {
	atNS  int64
	bytes uint64
	line  int64
}

func (c *Counters) setAside(reason string, line int64) {
	at := slices.IndexFunc(c.SetAside, func(s SetAside) bool { return s.Reason == reason })
	if at < 0 {
		at = len(c.SetAside)
		c.SetAside = append(c.SetAside, SetAside{Reason: reason, Line: line})
	}
	c.SetAside[at].Rows++
	c.SetAside[at].Line = min(c.SetAside[at].Line, line)
}

// rows returns the number of rows that were set aside for a reason.
func (c *Counters) rows(reason string) int64 {
	for _, s := range c.SetAside {
		if s.Reason == reason {
			return s.Rows
		}
	}
	return 0
}

// A counterEnd is an end of a link that counts its bytes.
type counterEnd struct {
	link     int32
	receives bool
}

// A counterPort is a port of a device, as a file of counters names it in lower case.
type counterPort struct{ device, port string }

// counterPorts returns the link that sends at each port, or -1 for a port of several links, and the names of
// all devices. A port without a name has that of the node at its other end.
func counterPorts(n *topology.Network) (ports map[counterPort]int32, devices map[string]bool) {
	ports = map[counterPort]int32{}
	devices = map[string]bool{}
	for _, node := range n.Nodes {
		devices[strings.ToLower(n.Name(node.ID))] = true
	}
	rec := n.LinksRecord()
	defer rec.Release()
	names := columns.Named(rec, "src_port")
	for i, l := range n.Links {
		p := counterPort{strings.ToLower(n.Name(l.Src)), strings.ToLower(n.Name(l.Dst))}
		if names.IsValid(i) {
			p.port = strings.ToLower(names.ValueStr(i))
		}
		_, known := ports[p]
		ports[p] = l.ID
		if known {
			ports[p] = -1
		}
	}
	return ports, devices
}

// ReadCounters reads counters of interfaces from a CSV file, for the part of the log. It keeps 24 bytes per
// row. It returns an error if the file cannot be read, or if it has no usable row.
func (l *Log) ReadCounters(o CounterOptions) (*Counters, error) {
	r := newCounterReader(l.run.Network, o)
	if err := r.readAll(l); err != nil {
		return nil, fmt.Errorf("counters %s: %w", o.File, err)
	}
	return r.Counters, nil
}

func newCounterReader(n *topology.Network, o CounterOptions) *counterReader {
	r := &counterReader{
		Counters: &Counters{File: o.File, deltas: map[int32][]delta{}, at: map[int32]int{}},
		network:  n, options: o, samples: map[counterEnd][]sample{}, last: map[counterEnd]int64{},
	}
	r.ports, r.devices = counterPorts(n)
	return r
}

// readAll reads the file, and finds the bytes of each link.
func (r *counterReader) readAll(l *Log) error {
	if err := r.read(); err != nil {
		return err
	}
	for end, samples := range r.samples {
		sender := counterEnd{link: end.link}
		if end.receives && r.samples[sender] != nil {
			for _, x := range samples {
				r.setAside(otherEnd, x.line)
			}
			continue
		}
		slices.SortStableFunc(samples, func(a, b sample) int { return cmp.Compare(a.atNS, b.atNS) })
		s := &series{Counters: r.Counters, link: &r.network.Links[end.link], log: l, kind: r.options.Kind}
		s.add(samples)
	}
	slices.SortFunc(r.SetAside, func(a, b SetAside) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Reason, b.Reason))
	})
	for id := range r.deltas {
		r.ids = append(r.ids, id)
	}
	slices.Sort(r.ids)
	r.Links = len(r.ids)
	return r.check(l)
}

// check returns an error if no row is usable, or if the bytes seem to be of the other kind.
func (r *counterReader) check(l *Log) error {
	stated := CounterKinds[r.options.Kind]
	lower := r.rows(afterReset) + r.rows(manyWraps)
	switch {
	case r.Rows == 0:
		return errors.New("has no rows")
	case 10*lower > r.Rows || 3*r.Wraps > r.Rows:
		return fmt.Errorf("%d of %d rows have fewer bytes than the row before of their port, and the counters are "+
			"said to be %s: are they bytes of intervals, or 32-bit counters that are polled too rarely?",
			lower+r.Wraps, r.Rows, stated)
	case 10*r.rows(tooFast) > r.Rows:
		return fmt.Errorf("%d of %d rows have more bytes than the link can carry, and the counters are said to "+
			"be %s: "+
			"are they cumulative, or bits?", r.rows(tooFast), r.Rows, stated)
	case r.Used == 0:
		most := r.SetAside[0]
		return fmt.Errorf("no row is usable: %d of %d: %s (first: line %d); the part of the log is from %s to %s",
			most.Rows, r.Rows, most.Reason, most.Line, units.Time(l.FromNS), units.Time(l.ToNS))
	}
	return nil
}

// A series is the counter of one port.
type series struct {
	*Counters
	link *topology.Link
	log  *Log
	kind CounterKind
	// gapNS is the longest distance of rows of counters per interval: 1.5 times the median.
	gapNS int64
	bits  int // 32, or 64 if a value or a decrease excludes 32
}

// add adds the bytes between the samples, which are in the order of their times.
func (s *series) add(samples []sample) {
	var kept []sample
	for _, x := range samples {
		if len(kept) > 0 && kept[len(kept)-1].atNS == x.atNS {
			s.setAside(repeated, x.line)
			continue
		}
		kept = append(kept, x)
	}
	s.setAside(firstOfPort, kept[0].line)
	s.bits = 32
	var distances []int64
	for i, x := range kept {
		if x.bytes >= 1<<32 {
			s.bits = 64
		}
		if i > 0 {
			distances = append(distances, x.atNS-kept[i-1].atNS)
		}
	}
	if len(distances) > 0 {
		slices.Sort(distances)
		s.gapNS = distances[len(distances)/2] * 3 / 2
	}
	for i := 1; i < len(kept); i++ {
		d, reason := s.delta(kept[i-1], kept[i])
		if reason != "" {
			s.setAside(reason, kept[i].line)
			continue
		}
		s.Used++
		s.deltas[s.link.ID] = append(s.deltas[s.link.ID], d)
	}
}

// spare is the share above its bandwidth that a link may seem to carry, because polls are not exact in time.
const spare = 0.05

// delta returns the bytes between two samples, or the reason why they are not known.
func (s *series) delta(from, to sample) (d delta, reason string) {
	d = delta{fromNS: from.atNS, toNS: to.atNS, bytes: float64(to.bytes)}
	possible := (1 + spare) * float64(s.link.BandwidthBps) / 8e9 * float64(to.atNS-from.atNS)
	if s.kind == PerInterval && to.atNS-from.atNS > s.gapNS {
		return d, afterGap
	}
	if s.kind == Cumulative {
		d.bytes = float64(to.bytes) - float64(from.bytes)
	}
	wrapped := false
	if d.bytes < 0 {
		d.bytes += 1 << 32
		wrapped = s.bits == 32 && d.bytes <= possible
		if !wrapped {
			return d, afterReset
		}
		if possible-d.bytes >= 1<<32 {
			return d, manyWraps
		}
	}
	switch {
	case d.bytes > possible:
		return d, tooFast
	case d.toNS <= s.log.FromNS || d.fromNS >= s.log.ToNS:
		return d, outsideLog
	}
	if wrapped {
		s.Wraps++
	}
	return d, ""
}

// in returns the bytes of a link in a slot. ok is false unless the counters cover all of it. Slots of a link
// do not go back in time.
func (c *Counters) in(link int32, fromNS, toNS int64) (bytes int64, ok bool) {
	all := c.deltas[link]
	at := c.at[link]
	for at < len(all) && all[at].toNS <= fromNS {
		at++
	}
	c.at[link] = at
	sum := 0.0
	coveredNS := int64(0)
	for ; at < len(all) && all[at].fromNS < toNS; at++ {
		d := all[at]
		ns := min(d.toNS, toNS) - max(d.fromNS, fromNS)
		coveredNS += ns
		sum += d.bytes * float64(ns) / float64(d.toNS-d.fromNS)
	}
	return int64(sum + 0.5), coveredNS == toNS-fromNS
}
