package jobs

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

// csvOf returns the output of WriteCSV for a trace, without the header. Rank i is on host 10+i.
func csvOf(t *testing.T, trace *Trace) []string {
	t.Helper()
	var hosts []int32
	for i := range max(trace.Ranks, 0) {
		hosts = append(hosts, int32(10+i))
	}
	var out strings.Builder
	n, err := trace.WriteCSV(t.Context(), &out, "job", hosts)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")[1:]
	if int(n) != len(lines) {
		t.Errorf("%d flows, %d lines", n, len(lines))
	}
	return lines
}

// Traces that are truncated, contradict themselves or cannot be simulated are errors that name the place.
func TestTraceErrors(t *testing.T) {
	goal := func(text string) func() (*Trace, error) {
		return func() (*Trace, error) { return ReadGOAL(strings.NewReader("num_ranks 2\nrank 0 {\n"+text), 0) }
	}
	cm := func(text string) func() (*Trace, error) {
		return func() (*Trace, error) { return ReadHtsim(strings.NewReader("Nodes 2\n"+text), 0) }
	}
	ccl := func(from, to string) func() (*Trace, error) {
		return func() (*Trace, error) {
			return ReadSimCCL(strings.NewReader(strings.Replace(simccl, from, to, 1)),
				0)
		}
	}
	et := func(change func([][]byte) [][]byte) func() (*Trace, error) {
		return func() (*Trace, error) { return readChakra(change(chakraTrace())) }
	}
	for want, read := range map[string]func() (*Trace, error){
		"rank 0 has no }":                                goal("calc 1\n"),
		"line 3: rank 2, want 0 to 1":                    goal("send 1b to 2\n}"),
		"line 4: label a comes twice":                    goal("a: calc 1\na: calc 2\n}"),
		"line 3: a requires b: rank 0 has no such label": goal("a requires b\n}"),
		"any rank": goal("recv 1b from -1\n}"),
		"line 3: rank 0 receives 1 messages from rank 1 with tag 0, which sends 0": goal("recv 1b from 1\n}"),
		"line 3: rank 0 sends 1 messages to rank 1 with tag 3, which receives 0":   goal("send 1b to 1 tag 3\n}"),
		"line 3 waits for itself": goal("a: calc 1\nb: calc 1\na requires b\nb requires " +
			"a\n}"),
		"line 5: rank 0 comes twice":                     goal("calc 1\n}\nrank 0 {\n}"),
		"is too large":                                   goal("calc 99999999999999999999\n}"),
		"Connections says 0, but there are 1":            cm("0->1 start 0 size 1"),
		"line 2: node 2, want 0 to 1":                    cm("2->1 start 0 size 1"),
		"line 2: 0->1 has neither start nor trigger":     cm("0->1 size 1"),
		"line 2: 0->1 has no size":                       cm("0->1 start 0"),
		`line 2: key "size" comes twice`:                 cm("0->1 start 0 size 1 size 2"),
		`line 2: key "start_bcast" is not supported`:     cm("0->1 start_bcast 0 size 1"),
		`line 2: "Grp" is not supported`:                 cm("Grp 0 1"),
		"line 3 waits for trigger 5, which needs 0 ends": cm("Connections 1\n0->1 trigger 5 size 1"),
		"needs 1 ends of connections and has 2": cm("Connections 3\nTriggers 1\n0->1 start 0 size 1 " +
			"send_done_trigger 1\n0->1 start 0 size 1 send_done_trigger 1\n0->1 trigger 1 size 1\ntrigger id 1 " +
			"oneshot"),
		"line 1: 0 columns are named parent_flow_ids": ccl("parent_flow_ids", "parents"),
		"is empty":                                                        ccl(simccl, ""),
		"line 1: 2 columns are named flow_id":                             ccl("flow_id,src", "flow_id,flow_id"),
		"record on line 4: wrong number of fields":                        ccl("RING,4,0", "RING"),
		`line 3: src "x", want a number from 0 to 65535`:                  ccl("6,2,0", "6,x,0"),
		`line 2: dest "65536"`:                                            ccl("0,1,100", "0,65536,100"),
		`line 3: parent_flow_ids "-1"`:                                    ccl("5;4", "-1"),
		"line 3: flow 4 comes twice":                                      ccl("6,2,0", "4,2,0"),
		"line 3 waits for flow 7, which the file does not have":           ccl("5;4", "7"),
		"line 3 waits for itself through":                                 ccl("RING,4,0", "RING,6,0"),
		"line 2: conn_type NVLS_TREE: sums in switches are not supported": ccl("RING", "NVLS_TREE"),
		"x.1.et: message 3: the file is cut off": et(
			func(f [][]byte) [][]byte { f[1] = f[1][:len(f[1])-2]; return f }),
		"x.0.et node 3: rank 0 sends 1 messages to rank 1": et(func(f [][]byte) [][]byte {
			f[1] = chakraFile(chakraNodeBytes(7, 7, 0, nil, map[string]int64{"comm_type": 2, "comm_size": 100}, "dp"))
			return f
		}),
		"x.1.et node 7: all-reduce of 1 bytes, but x.0.et node 2: all-gather of 100 bytes": et(
			func(f [][]byte) [][]byte {
				f[0] = chakraFile(chakraNodeBytes(2, 7, 0, nil, map[string]int64{"comm_type": 2, "comm_size": 100}, "dp"))
				f[1] = chakraFile(chakraNodeBytes(7, 7, 0, nil, map[string]int64{"comm_type": 9}, "dp"))
				return f
			}),
		"x.0.et: message 1: node 2: collectives of type 3 are not supported": et(func(f [][]byte) [][]byte {
			f[0] = chakraFile(chakraNodeBytes(2, 7, 0, nil, map[string]int64{"comm_type": 3, "comm_size": 1}, ""))
			return f
		}),
		"x.0.et node 1 waits for node 9": et(
			func(f [][]byte) [][]byte { f[0] = chakraFile(chakraNodeBytes(1, 4, 0, []uint64{9}, nil, "")); return f }),
	} {
		trace, err := read()
		if err == nil {
			err = trace.Flows(t.Context(), []int32{0, 1, 2}, func(*Flow) error { return nil })
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	trace, err := ReadGOAL(strings.NewReader("num_ranks 3\nrank 0 {\n}"), 0)
	if err == nil {
		err = trace.Flows(t.Context(), []int32{1, 2}, nil)
	}
	if err == nil || err.Error() != "3 ranks, but the topology has 2 hosts" {
		t.Error(err)
	}
	full := errors.New("full")
	if trace, err = ReadGOAL(strings.NewReader(goal0), 0); err == nil {
		err = trace.Flows(t.Context(), []int32{1, 2}, func(*Flow) error { return full })
	}
	if !errors.Is(err, full) {
		t.Error(err)
	}
}

const goal0 = "num_ranks 1\nrank 0 {\ncalc 1\n}"

// A reader returns for any content of a file, and flows wait only for flows before them.
func FuzzTrace(f *testing.F) {
	f.Add([]byte(goal), byte(0))
	f.Add([]byte("Nodes 2\nConnections 1\n0->1 start 0 size 1"), byte(1))
	f.Add(chakraTrace()[0], byte(2))
	f.Add(chakraFile(chakraNodeBytes(1, 7, 0, nil, map[string]int64{"comm_type": 6, "comm_size": 5}, "")),
		byte(2))
	f.Add([]byte(simccl), byte(3))
	f.Fuzz(func(t *testing.T, data []byte, kind byte) {
		var trace *Trace
		var err error
		switch kind % 4 {
		case 0:
			trace, err = ReadGOAL(bytes.NewReader(data), 0)
		case 1:
			trace, err = ReadHtsim(bytes.NewReader(data), 0)
		case 3:
			trace, err = ReadSimCCL(bytes.NewReader(data), 0)
		default:
			trace, err = readChakra([][]byte{data, data})
		}
		if err != nil {
			return
		}
		n := int64(0)
		_ = trace.Flows(t.Context(), make([]int32, max(0, min(trace.Ranks, 64))), func(f *Flow) error {
			for _, of := range f.After {
				if of >= n {
					t.Fatalf("flow %d waits for flow %d", n, of)
				}
			}
			n++
			if n > 10000 {
				return os.ErrClosed
			}
			return nil
		})
	})
}
