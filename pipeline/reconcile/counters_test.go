package reconcile

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// second is a time in the log of these tests, which lasts from 1,000 to 2,000 s.
const second = int64(1e9)

func logOf(from, to int64) *Log { return &Log{FromNS: from * second, ToNS: to * second} }

// What a counter says between two rows depends on what its bytes are, and on what its link can carry.
func TestBytesBetweenTwoRowsOfACounter(t *testing.T) {
	const wrap = 1 << 32
	for _, c := range []struct {
		name     string
		kind     CounterKind
		bps      int64
		bits     int
		from, to sample
		want     float64
		reason   string
	}{
		{"cumulative", Cumulative, 1e9, 64, sample{1000, 500, 0}, sample{1030, 800, 0}, 300, ""},
		{"of an interval", PerInterval, 1e9, 64, sample{1000, 500, 0}, sample{1030, 300, 0}, 300, ""},
		{"after a gap", PerInterval, 1e9, 64, sample{1000, 500, 0}, sample{1046, 300, 0}, 0, afterGap},
		{"as fast as the link", Cumulative, 1e9, 64, sample{1000, 0, 0}, sample{1010, 1.3125e9, 0}, 1.3125e9, ""},
		{"faster", Cumulative, 1e9, 64, sample{1000, 0, 0}, sample{1010, 1.3126e9, 0}, 0, tooFast},
		{"a wrap", Cumulative, 1e9, 32, sample{1000, wrap - 100, 0}, sample{1030, 200, 0}, 300, ""},
		{"a reset of a slow link", Cumulative, 1e6, 32, sample{1000, 1e9, 0}, sample{1030, 200, 0}, 0, afterReset},
		{"64 bits", Cumulative, 1e9, 64, sample{1000, wrap - 100, 0}, sample{1030, 200, 0}, 0, afterReset},
		{"two wraps", Cumulative, 1e10, 32, sample{1000, wrap - 100, 0}, sample{1030, 200, 0}, 0, manyWraps},
		{"before the log", Cumulative, 1e9, 64, sample{970, 0, 0}, sample{1000, 800, 0}, 0, outsideLog},
		{"after the log", Cumulative, 1e9, 64, sample{2000, 0, 0}, sample{2001, 800, 0}, 0, outsideLog},
	} {
		s := series{
			Counters: &Counters{}, link: &topology.Link{BandwidthBps: c.bps}, log: logOf(1000, 2000), kind: c.kind,
			bits: c.bits, gapNS: 45 * second,
		}
		c.from.atNS *= second
		c.to.atNS *= second
		d, reason := s.delta(c.from, c.to)
		if reason != c.reason || reason == "" && math.Abs(d.bytes-c.want) > 0 {
			t.Errorf("%s: %v bytes, %q; want %v, %q", c.name, d.bytes, reason, c.want, c.reason)
		}
	}
}

// A slot has counted bytes only if rows cover all of it; rows that overlap its borders are divided evenly.
func TestCountedBytesOfASlot(t *testing.T) {
	deltas := []delta{{0, 10, 100}, {10, 20, 300}, {25, 40, 150}}
	c := &Counters{at: map[int32]int{}, deltas: map[int32][]delta{3: deltas}}
	for _, want := range []struct {
		fromNS, toNS, bytes int64
		known               bool
	}{{0, 5, 50, true}, {5, 15, 200, true}, {15, 25, 150, false}, {25, 40, 150, true}, {40, 50, 0, false}} {
		bytes, known := c.in(3, want.fromNS, want.toNS)
		if bytes != want.bytes || known != want.known {
			t.Errorf("%+v: %d, %v", want, bytes, known)
		}
	}
}

// Times are RFC 3339, or numbers since 1970 whose unit follows from their size.
func TestTimesOfCounters(t *testing.T) {
	const want = int64(1769817600_500000000)
	for _, text := range []string{
		"2026-01-31T00:00:00.5Z", "2026-01-31 00:00:00.5", "1769817600.5", "1769817600500", "1769817600500000",
		"1769817600500000000",
	} {
		ns, err := counterTime(text)
		if err != nil || ns != want {
			t.Errorf("%s: %d, %v", text, ns, err)
		}
	}
	for _, text := range []string{"", "noon", "-1", "NaN", "1e30", "2026-01-31"} {
		ns, err := counterTime(text)
		if err == nil {
			t.Errorf("%q is %d", text, ns)
		}
	}
}

// Counters of the wrong kind, or without a usable row, are an error.
func TestCountersThatSayNothingAreAnError(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	l := n.Links[0]
	device := n.Name(l.Src) + "," + n.Name(l.Dst) + ","
	row := func(at, bytes string) string { return at + "," + device + bytes + "\n" }
	const header = "time,device,port,bytes\n"
	for _, c := range []struct {
		text string
		kind CounterKind
		want string
	}{
		{"", Cumulative, "is empty"},
		{header, Cumulative, "has no rows"},
		{"time,device,port\n", Cumulative, "has no column bytes or octets"},
		{"time,ts,device,port,bytes\n", Cumulative, "several columns may be the time"},
		{header + "1000,x,y\n", Cumulative, "wrong number of fields"},
		{header + "1000,x,y,5\n", Cumulative, "1 of 1: device that the network does not have (first: line 2)"},
		{header + row("1000", "9") + row("1100", "5") + row("1200", "4"), Cumulative,
			"are they bytes of intervals, or"},
		{header + row("1000", "1") + row("1001", "90000000000") + row("1002", "90000000005"), PerInterval,
			"are they cumulative, or bits?"},
		{header + row("10", "1") + row("20", "5"), Cumulative, "the part of the log is from"},
	} {
		file := filepath.Join(t.TempDir(), "counters.csv")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := newCounterReader(n, CounterOptions{File: file, Kind: c.kind}).readAll(logOf(1000, 2000))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}
