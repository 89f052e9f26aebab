package jobs

import (
	"slices"
	"strings"
	"testing"
)

func TestHtsim(t *testing.T) {
	trace, err := ReadHtsim(strings.NewReader(`Nodes 4
Connections 4
Triggers 2
0->1 id 1 start 2000000 size 1000 send_done_trigger 1
2->1 id 2 start 0 size 1000 recv_done_trigger 2
1->2 id 3 trigger 1 size 500 prio 2 send_done_trigger 2
2->3 id 4 trigger 2 size 600
trigger id 1 oneshot
trigger id 2 barrier count 2
`), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"0,10,11,1000,2000,job,,0", "1,12,11,1000,0,job,,0", "2,11,12,500,0,job,0,0",
		"3,12,13,600,0,job,1 2,0"}
	got := csvOf(t, trace)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// htsim reads a start as a floating-point number of ps. Without decimals, files of htsim's generators were
// refused.
func TestHtsimDecimalStarts(t *testing.T) {
	for start, want := range map[string]int64{
		"0.0": 0, "1234567.5": 1235, "2.5e6": 2500, "499": 0, "500": 1, "500.0": 1,
		"9000000000000000000": 9_000_000_000_000_000,
	} {
		trace, err := ReadHtsim(strings.NewReader("Nodes 2\nConnections 1\n0->1 start "+start+" size 1"), 0)
		if err != nil {
			t.Errorf("start %s: %v", start, err)
			continue
		}
		got := trace.ops[0].startNS
		if got != want {
			t.Errorf("start %s is %d ns, want %d", start, got, want)
		}
	}
	for _, start := range []string{"-1", "-0.5", "nan", "inf", "1e30", "1us", "x"} {
		_, err := ReadHtsim(strings.NewReader("Nodes 2\nConnections 1\n0->1 start "+start+" size 1"), 0)
		if err == nil || !strings.Contains(err.Error(), "line 3: start "+start) {
			t.Errorf("start %s: %v", start, err)
		}
	}
}
