package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The traffic of a generated day: 16 hosts in four racks under one spine, so that every path is known without
// a router:
//
//	host h ─ link h ─► leaf h/4 ─ link 32+h/4 ─► spine ─ link 36+d/4 ─► leaf d/4 ─ link 16+d ─► host d
//
// The generator writes down the bytes of each link in each minute while it draws them. It uses nothing of the
// packages that are measured.

const (
	dayHosts    = 16
	hostsOfLeaf = 4
	dayLinks    = 2*dayHosts + 2*dayHosts/hostsOfLeaf
	dayMinutes  = 24 * 60
	// dayBegin is midnight of 2026-01-31, in s since 1970.
	dayBegin = 1769817600
)

// dayKinds are the generated days.
var dayKinds = []string{"persistent", "bursty", "tunnels", "mixed", "moves"}

// dayPath returns the links between two hosts.
func dayPath(src, dst int) []int {
	if src/hostsOfLeaf == dst/hostsOfLeaf {
		return []int{src, dayHosts + dst}
	}
	up := 2*dayHosts + src/hostsOfLeaf
	down := 2*dayHosts + dayHosts/hostsOfLeaf + dst/hostsOfLeaf
	return []int{src, dayHosts + dst, up, down}
}

// A dayConnection is a connection between two hosts.
type dayConnection struct {
	src, dst         int
	srcPort, dstPort int
	protocol         int
	packetBytes      [2]int64 // of the client's packets, and of the server's
	bps              float64  // of the client, on average
	reply            float64  // bytes of the server for each byte of the client
	rate             func(minute int, draw *rand.Rand) float64
}

// A dayRecord has the packets of a connection in a minute, in both directions. Times are in s of the minute.
type dayRecord struct {
	*dayConnection
	minute       int
	fromS, lastS int
	packets      [2]int64
}

// bytes returns the bytes of a direction.
func (r *dayRecord) bytes(way int) int64 { return r.packets[way] * r.packetBytes[way] }

// A dayTruth has the bytes of each link in each minute.
type dayTruth struct {
	flows int64
	bytes [dayLinks][]float64
	// variance is that of the bytes if each exporter samples one packet in samplingRate.
	variance [dayLinks][]float64
}

func newDayTruth(minutes int) *dayTruth {
	t := &dayTruth{}
	for link := range dayLinks {
		t.bytes[link] = make([]float64, minutes)
		t.variance[link] = make([]float64, minutes)
	}
	return t
}

// add adds a record to the links of both directions.
func (t *dayTruth) add(r *dayRecord) {
	ends := [2]int{r.src, r.dst}
	for way := range 2 {
		bytes := float64(r.bytes(way))
		path := dayPath(ends[way], ends[1-way])
		exporters := float64(len(path) / 2) // the leaf of each end
		for _, link := range path {
			t.bytes[link][r.minute] += bytes
			t.variance[link][r.minute] += bytes * float64(r.packetBytes[way]) * (samplingRate - 1) / exporters
		}
	}
}

// A dayWriter draws the connections of a day.
type dayWriter struct {
	minutes int
	draw    *rand.Rand
	port    int
	records []dayRecord
}

// newDay draws the first minutes of a day, and returns its records with the truth.
func newDay(kind string, minutes int) ([]dayRecord, *dayTruth) {
	seed := uint64(slices.Index(dayKinds, kind))
	w := &dayWriter{minutes: minutes, draw: rand.New(rand.NewPCG(1, seed)), port: 40_000}
	switch kind {
	case "persistent":
		w.connections(16, w.persistent)
	case "bursty":
		w.connections(16, w.bursty)
	case "tunnels":
		w.connections(6, w.tunnel)
	case "mixed":
		w.connections(10, w.persistent)
		w.connections(10, w.bursty)
		w.connections(2, w.tunnel)
		w.connections(4, w.backup)
		w.web(14 * minutes)
	case "moves":
		w.connections(16, func() *dayConnection {
			c := w.persistent()
			c.src %= hostsOfLeaf // the rack whose exporters change
			return c
		})
	}
	t := newDayTruth(minutes)
	for i := range w.records {
		t.add(&w.records[i])
	}
	return w.records, t
}

// connections adds the records of a number of connections.
func (w *dayWriter) connections(n int, kind func() *dayConnection) {
	for range n {
		c := kind()
		for c.dst == c.src {
			c.dst = w.draw.IntN(dayHosts)
		}
		for minute := range w.minutes {
			bytes := c.bps * c.rate(minute, w.draw) * 60 / 8
			if bytes < 1 {
				continue
			}
			w.records = append(w.records, dayRecord{
				dayConnection: c, minute: minute, fromS: w.draw.IntN(3), lastS: 57 + w.draw.IntN(3),
				packets: [2]int64{packetsOf(bytes, c.packetBytes[0]), packetsOf(bytes*c.reply, c.packetBytes[1])},
			})
		}
	}
}

func packetsOf(bytes float64, ofPacket int64) int64 { return 1 + int64(bytes/float64(ofPacket)) }

// connection returns a connection between random hosts.
func (w *dayWriter) connection(dstPort int, bps float64) *dayConnection {
	w.port++
	return &dayConnection{
		src: w.draw.IntN(dayHosts), dst: w.draw.IntN(dayHosts), srcPort: w.port, dstPort: dstPort, protocol: 6,
		packetBytes: [2]int64{1400, 300}, bps: bps, reply: 0.2,
	}
}

// persistent sends all day, more by day than by night, and 10% more or less from minute to minute.
func (w *dayWriter) persistent() *dayConnection {
	c := w.connection(5432, 5e6+35e6*w.draw.Float64())
	c.rate = func(minute int, draw *rand.Rand) float64 {
		return (1 - 0.5*math.Cos(2*math.Pi*float64(minute)/dayMinutes)) * (0.9 + 0.2*draw.Float64())
	}
	return c
}

// bursty sends for a few minutes, and then nothing for up to an hour. All of them send at two o'clock.
func (w *dayWriter) bursty() *dayConnection {
	c := w.connection(9092, 1e9*w.draw.Float64())
	const twoOClock = 14 * 60
	on := false
	left := w.draw.IntN(30)
	c.rate = func(minute int, draw *rand.Rand) float64 {
		if minute >= twoOClock && minute < twoOClock+5 {
			return 1
		}
		if left == 0 {
			on = !on
			left = 1 + draw.IntN(4)
			if !on {
				left *= 15
			}
		}
		left--
		if !on {
			return 0
		}
		return draw.Float64()
	}
	return c
}

// tunnel has the bytes of many connections, in both directions. GRE has no ports.
func (w *dayWriter) tunnel() *dayConnection {
	c := w.connection(0, 3e9+3e9*w.draw.Float64())
	c.srcPort = 0
	c.protocol = 47
	c.packetBytes = [2]int64{1000, 1000}
	c.reply = 0.8
	c.rate = func(_ int, draw *rand.Rand) float64 { return 0.8 + 0.4*draw.Float64() }
	return c
}

// backup sends for up to an hour as fast as a disk reads. It repeats this every six hours.
func (w *dayWriter) backup() *dayConnection {
	c := w.connection(2049, 8e9)
	c.packetBytes = [2]int64{1500, 200}
	c.reply = 1e-5
	from := w.draw.IntN(30)
	lasts := 20 + w.draw.IntN(40)
	c.rate = func(minute int, _ *rand.Rand) float64 {
		at := minute % 360
		if at < from || at >= from+lasts {
			return 0
		}
		return 1
	}
	return c
}

// web adds short connections, each within a second.
func (w *dayWriter) web(n int) {
	for range n {
		c := w.connection(443, 0)
		c.srcPort = 1024 + w.draw.IntN(60_000)
		if c.src == c.dst {
			c.dst = (c.dst + 1) % dayHosts
		}
		second := w.draw.IntN(60)
		bytes := math.Exp(9 + 2*w.draw.NormFloat64())
		w.records = append(w.records, dayRecord{
			dayConnection: c, minute: w.draw.IntN(w.minutes), fromS: second, lastS: second,
			packets: [2]int64{2, packetsOf(bytes, c.packetBytes[1])},
		})
	}
}
