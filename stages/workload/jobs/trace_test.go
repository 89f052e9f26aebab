package jobs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// csvOf is what WriteCSV writes of a trace, without the header, rank i on host 10+i.
func csvOf(t *testing.T, trace *Trace) []string {
	t.Helper()
	var hosts []int32
	for i := range max(trace.Ranks, 0) {
		hosts = append(hosts, int32(10+i))
	}
	var out strings.Builder
	n, err := trace.WriteCSV(&out, "job", hosts)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")[1:]
	if int(n) != len(lines) {
		t.Errorf("%d flows, %d lines", n, len(lines))
	}
	return lines
}

// Rank 0 computes and sends; rank 1 receives at once (irequires), and answers when it has received and computed.
const goal = `// a schedule
num_ranks 2
rank 0 { /* two lines
of comment */
a: calc 1500 cpu 1
b: send 4000b to 1 tag 7 cpu 0 nic 0
c: recv 8b from 1
b requires a
c irequires a
}

rank 1 {
r: recv 4000b from 0 tag 7
c: calc 100
s: send 8 b to 0
c irequires r
s requires r
s requires c
}
`

func TestGOAL(t *testing.T) {
	trace, err := ReadGOAL(strings.NewReader(goal))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0,10,10,0,1500,job,,0",
		"1,11,11,0,100,job,,0",
		"2,10,11,4000,0,job,0,0",
		"3,11,10,8,0,job,1 2,0",
	}
	if got := csvOf(t, trace); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A receive that waits for a computation ends after both.
func TestGOALLateReceive(t *testing.T) {
	trace, err := ReadGOAL(strings.NewReader(`num_ranks 2
rank 0 {
send 10b to 1
}
rank 1 {
a: calc 5
b: recv 10b from 0
c: send 0b to 1
d: recv 0b from 1
b requires a
c requires b
}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"0,10,11,10,0,job,,0", "1,11,11,0,5,job,,0", "2,11,11,0,0,job,0 1,0", "3,11,11,0,0,job,2,0"}
	if got := csvOf(t, trace); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

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
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"0,10,11,1000,2000,job,,0", "1,12,11,1000,0,job,,0", "2,11,12,500,0,job,0,0",
		"3,12,13,600,0,job,1 2,0"}
	if got := csvOf(t, trace); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// chakraNodeBytes encodes a node; numbers are int64 attributes.
func chakraNodeBytes(id, kind, micros uint64, deps []uint64, numbers map[string]int64, group string) []byte {
	var b, packed []byte
	number := func(n protowire.Number, v uint64) {
		b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	number(1, id)
	number(3, kind)
	number(7, micros)
	for i, d := range deps {
		if i == 0 { // a control dependency, not packed
			number(4, d)
			continue
		}
		packed = protowire.AppendVarint(packed, d)
	}
	b = protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), packed)
	attribute := func(name string, value []byte) {
		a := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		b = protowire.AppendBytes(protowire.AppendTag(b, 10, protowire.BytesType), append(a, value...))
	}
	for name, v := range numbers {
		attribute(name, protowire.AppendVarint(protowire.AppendTag(nil, 13, protowire.VarintType), uint64(v)))
	}
	if group != "" {
		attribute("pg_name", protowire.AppendString(protowire.AppendTag(nil, 29, protowire.BytesType), group))
	}
	return b
}

func chakraFile(nodes ...[]byte) []byte {
	b := binary.AppendUvarint(nil, 0) // metadata without a field
	for _, n := range nodes {
		b = append(binary.AppendUvarint(b, uint64(len(n))), n...)
	}
	return b
}

// chakraTrace has two ranks that compute, all-gather 100 bytes each, and send one message.
func chakraTrace() [][]byte {
	gather := map[string]int64{"comm_type": 2, "comm_size": 100}
	return [][]byte{
		chakraFile(chakraNodeBytes(1, 4, 3, nil, nil, ""), chakraNodeBytes(2, 7, 0, []uint64{1}, gather, "dp"),
			chakraNodeBytes(3, 5, 0, []uint64{1, 2}, map[string]int64{"comm_dst": 1, "comm_size": 9, "comm_tag": 4}, "")),
		chakraFile(chakraNodeBytes(5, 6, 0, []uint64{7}, map[string]int64{"comm_src": 0, "comm_size": 9, "comm_tag": 4}, ""),
			chakraNodeBytes(7, 7, 0, nil, gather, "dp"), chakraNodeBytes(8, 4, 2, []uint64{5}, nil, "")),
	}
}

// The flows of a ring of three ranks, one of which has two parents, as SimCCL's mocks of NCCL 2.30 and 2.20 list them.
const simccl = `collective,op,data_size,algorithm,protocol,channel_id,flow_id,src,dest,flow_size,chunk_id,chunk_count,conn_type,parent_flow_ids,prev_flow_ids
TP_0_0_0_1_300,1,300,1,0,0,4,0,1,100,0,2,RING,,2
TP_0_0_0_1_300,1,300,1,0,0,6,2,0,100,0,2,PTP_PXN_END,5;4,1
TP_0_0_0_1_300,1,300,1,0,0,5,1,2,0,0,2,RING,4,0
`

func TestSimCCL(t *testing.T) {
	var older []string
	for line := range strings.Lines(simccl) {
		f := strings.Split(line, ",")
		older = append(older, strings.Join(slices.Delete(f, 3, 5), ","))
	}
	for _, text := range []string{simccl, strings.Join(older, "")} {
		trace, err := ReadSimCCL(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"0,10,11,100,0,job,,0", "1,11,12,1,0,job,0,0", "2,12,10,100,0,job,0 1,0"}
		if got := csvOf(t, trace); !slices.Equal(got, want) {
			t.Errorf("got\n%s", strings.Join(got, "\n"))
		}
	}
}

func readChakra(files [][]byte) (*Trace, error) {
	content := map[string][]byte{}
	var names []string
	for rank, f := range files {
		names = append(names, fmt.Sprintf("x.%d.et", rank))
		content[names[rank]] = f
	}
	return ReadChakra(names, func(file string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content[file])), nil
	})
}

func TestChakra(t *testing.T) {
	trace, err := readChakra(chakraTrace())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0,10,10,0,3000,job,,0",
		"1,10,11,100,0,job,0,0",
		"2,11,10,100,0,job,,0",
		"3,10,11,9,0,job,0 1 2,0",
		"4,11,11,0,0,job,1 2 3,0",
		"5,11,11,0,0,job,4,2000",
	}
	if got := csvOf(t, trace); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// Traces that are cut off, contradict themselves or say what cannot be simulated are errors that say where.
func TestTraceErrors(t *testing.T) {
	goal := func(text string) func() (*Trace, error) {
		return func() (*Trace, error) { return ReadGOAL(strings.NewReader("num_ranks 2\nrank 0 {\n" + text)) }
	}
	cm := func(text string) func() (*Trace, error) {
		return func() (*Trace, error) { return ReadHtsim(strings.NewReader("Nodes 2\n" + text)) }
	}
	ccl := func(from, to string) func() (*Trace, error) {
		return func() (*Trace, error) { return ReadSimCCL(strings.NewReader(strings.Replace(simccl, from, to, 1))) }
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
		"line 3 waits for itself":                        goal("a: calc 1\nb: calc 1\na requires b\nb requires a\n}"),
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
		"needs 1 ends of connections and has 2":          cm("Connections 3\nTriggers 1\n0->1 start 0 size 1 send_done_trigger 1\n0->1 start 0 size 1 send_done_trigger 1\n0->1 trigger 1 size 1\ntrigger id 1 oneshot"),
		"line 1: 0 columns are named parent_flow_ids":    ccl("parent_flow_ids", "parents"),
		"is empty":                                                        ccl(simccl, ""),
		"line 1: 2 columns are named flow_id":                             ccl("flow_id,src", "flow_id,flow_id"),
		"record on line 4: wrong number of fields":                        ccl("RING,4,0", "RING"),
		`line 3: src "x", want a number from 0 to 65535`:                  ccl("6,2,0", "6,x,0"),
		`line 2: dest "65536"`:                                            ccl("0,1,100", "0,65536,100"),
		`line 3: parent_flow_ids "-1"`:                                    ccl("5;4", "-1"),
		"line 3: flow 4 comes twice":                                      ccl("6,2,0", "4,2,0"),
		"line 3 waits for flow 7, which the file has not":                 ccl("5;4", "7"),
		"line 3 waits for itself, by way":                                 ccl("RING,4,0", "RING,6,0"),
		"line 2: conn_type NVLS_TREE: sums in switches are not supported": ccl("RING", "NVLS_TREE"),
		"x.1.et: message 3: the file is cut off":                          et(func(f [][]byte) [][]byte { f[1] = f[1][:len(f[1])-2]; return f }),
		"x.0.et node 3: rank 0 sends 1 messages to rank 1": et(func(f [][]byte) [][]byte {
			f[1] = chakraFile(chakraNodeBytes(7, 7, 0, nil, map[string]int64{"comm_type": 2, "comm_size": 100}, "dp"))
			return f
		}),
		"x.1.et node 7: all-reduce of 1 bytes, but x.0.et node 2: all-gather of 100 bytes": et(func(f [][]byte) [][]byte {
			f[0], f[1] = chakraFile(chakraNodeBytes(2, 7, 0, nil, map[string]int64{"comm_type": 2, "comm_size": 100}, "dp")),
				chakraFile(chakraNodeBytes(7, 7, 0, nil, map[string]int64{"comm_type": 9}, "dp"))
			return f
		}),
		"x.0.et: message 1: node 2: collectives of type 3 are not supported": et(func(f [][]byte) [][]byte {
			f[0] = chakraFile(chakraNodeBytes(2, 7, 0, nil, map[string]int64{"comm_type": 3, "comm_size": 1}, ""))
			return f
		}),
		"x.0.et node 1 waits for node 9": et(func(f [][]byte) [][]byte { f[0] = chakraFile(chakraNodeBytes(1, 4, 0, []uint64{9}, nil, "")); return f }),
	} {
		trace, err := read()
		if err == nil {
			err = trace.Flows([]int32{0, 1, 2}, func(*Flow) error { return nil })
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	trace, err := ReadGOAL(strings.NewReader("num_ranks 3\nrank 0 {\n}"))
	if err == nil {
		err = trace.Flows([]int32{1, 2}, nil)
	}
	if err == nil || err.Error() != "3 ranks, but the topology has 2 hosts" {
		t.Error(err)
	}
	full := errors.New("full")
	if trace, err = ReadGOAL(strings.NewReader(goal0)); err == nil {
		err = trace.Flows([]int32{1, 2}, func(*Flow) error { return full })
	}
	if !errors.Is(err, full) {
		t.Error(err)
	}
}

const goal0 = "num_ranks 1\nrank 0 {\ncalc 1\n}"

// Whatever a file holds, a reader returns, and flows wait only for flows before them.
func FuzzTrace(f *testing.F) {
	f.Add([]byte(goal), byte(0))
	f.Add([]byte("Nodes 2\nConnections 1\n0->1 start 0 size 1"), byte(1))
	f.Add(chakraTrace()[0], byte(2))
	f.Add(chakraFile(chakraNodeBytes(1, 7, 0, nil, map[string]int64{"comm_type": 6, "comm_size": 5}, "")), byte(2))
	f.Add([]byte(simccl), byte(3))
	f.Fuzz(func(t *testing.T, data []byte, kind byte) {
		var trace *Trace
		var err error
		switch kind % 4 {
		case 0:
			trace, err = ReadGOAL(bytes.NewReader(data))
		case 1:
			trace, err = ReadHtsim(bytes.NewReader(data))
		case 3:
			trace, err = ReadSimCCL(bytes.NewReader(data))
		default:
			trace, err = readChakra([][]byte{data, data})
		}
		if err != nil {
			return
		}
		n := int64(0)
		_ = trace.Flows(make([]int32, max(0, min(trace.Ranks, 64))), func(f *Flow) error {
			for _, of := range f.After {
				if of >= n {
					t.Fatalf("flow %d waits for flow %d", n, of)
				}
			}
			if n++; n > 10000 {
				return os.ErrClosed
			}
			return nil
		})
	})
}
