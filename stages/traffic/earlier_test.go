package traffic

import (
	"fmt"
	"strings"
	"testing"

	"parsimon/stages/topology/topologytest"
)

// A loggedFlow is a flow of a workload. If end is 0, it has no interval. Times are in seconds.
type loggedFlow struct {
	src, dst   int // indexes of hosts
	start, end int64
	bytes      int64
}

// Transfers that began before the part have their bytes within it, in proportion to time. A host is named if
// it lacks a twentieth of its bytes, and has a hundredth of those of the busiest host. A user would otherwise
// trust an estimate of links that lack half of their traffic.
func TestTransfersFromBeforeThePart(t *testing.T) {
	half := loggedFlow{0, 1, 50, 150, 1_000_000} // half of it is in the part
	rest := loggedFlow{0, 1, 110, 0, 500_000}
	busiest := loggedFlow{2, 3, 120, 0, 100_000_000}
	quiet := loggedFlow{4, 5, 60, 140, 2}
	twentieth := loggedFlow{6, 7, 50, 150, 200_000}
	others := loggedFlow{6, 7, 199, 0, 1_900_000}
	hosts := topologytest.MustClos(t, topologytest.SmallClos(4)).Hosts()
	db, in := opened(t, nil, nil)
	in.FromNS = 100 * secondNS
	in.ToNS = 200 * secondNS
	for name, c := range map[string]struct {
		flows []loggedFlow
		want  Earlier
	}{
		"some": {
			[]loggedFlow{half, rest, busiest, quiet, twentieth, others},
			Earlier{600_001, 600_001.0 / 103_000_001, 4, EarlierHost{hosts[0], true, 0.5}},
		},
		"less than a hundredth of the busiest": {
			[]loggedFlow{half, rest, busiest, {2, 3, 130, 0, 1000}},
			Earlier{500_000, 500_000.0 / 101_001_000, 0, EarlierHost{}},
		},
		"less than a twentieth": {
			[]loggedFlow{twentieth, others, {6, 7, 100, 0, 100}},
			Earlier{100_000, 100_000.0 / 2_000_100, 0, EarlierHost{}},
		},
		"all": {[]loggedFlow{quiet}, Earlier{1, 1, 2, EarlierHost{hosts[4], true, 1}}},
		"received from several": {
			[]loggedFlow{{0, 9, 50, 150, 200}, {1, 9, 50, 150, 400}},
			Earlier{300, 1, 3, EarlierHost{hosts[9], false, 1}},
		},
		"a part of the log, and after it": {
			[]loggedFlow{{0, 1, 200, 300, 8000}, quiet},
			Earlier{1, 1, 2, EarlierHost{hosts[4], true, 1}},
		},
		"ended":   {[]loggedFlow{{0, 1, 50, 100, 1000}}, Earlier{}},
		"none":    {[]loggedFlow{rest, {0, 1, 100, 200, 8000}}, Earlier{}},
		"divided": {[]loggedFlow{{0, 1, 99, 299, 200}}, Earlier{}},
	} {
		text := "CREATE OR REPLACE TABLE flows AS SELECT * FROM flows LIMIT 0;" +
			"CREATE OR REPLACE TABLE intervals AS SELECT * FROM intervals LIMIT 0;"
		for id, f := range c.flows {
			text += fmt.Sprintf("INSERT INTO flows VALUES (%d, %d, %d, %d, %d, '', '', true, 0, %[1]d, false);", id,
				hosts[f.src], hosts[f.dst], f.bytes, f.start*secondNS)
			if f.end > 0 {
				text += fmt.Sprintf("INSERT INTO intervals VALUES (%d, %d, %d, %d, NULL);", id, f.start*secondNS,
					f.end*secondNS, f.bytes)
			}
		}
		q := &query{db: db, Input: in}
		q.exec(t.Context(), text)
		divided := "(SELECT flow_id FROM flows WHERE start_ns = 99000000000)"
		got := q.earlier(t.Context(), divided)
		if q.err != nil || got != c.want {
			t.Errorf("%s: %+v, want %+v; %v", name, got, c.want, q.err)
		}
	}
}

// The remark about earlier transfers names the worst host and its direction.
func TestNotesOfEarlierTransfers(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	e := Earlier{Bytes: 3e6, Share: 0.031, Hosts: 2, Worst: EarlierHost{Host: 1, Share: 0.5}}
	for sends, want := range map[bool]string{true: "sends", false: "receives"} {
		e.Worst.Sends = sends
		notes := e.Notes(n)
		if len(notes) != 1 {
			t.Fatalf("notes %q", notes)
		}
		for _, part := range []string{"have 3 MB of it, 3.1%,", "at least 5% of what the links of 2 hosts carry",
			"such as 50% of what " + n.Name(1) + " " + want + ";"} {
			if !strings.Contains(notes[0], part) {
				t.Errorf("the note lacks %q: %s", part, notes[0])
			}
		}
	}
	none := Earlier{Bytes: 5, Share: 1e-9}
	if none.Notes(n) != nil {
		t.Errorf("without such hosts: %q", none.Notes(n))
	}
}
