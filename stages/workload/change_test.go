package workload_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// batches is a table in batches.
type batches []arrow.Record

func (b *batches) Close() error { return nil }

func (b *batches) Next(...string) (arrow.Record, error) {
	if len(*b) == 0 {
		return nil, io.EOF
	}
	first := (*b)[0]
	*b = (*b)[1:]
	first.Retain()
	return first, nil
}

// rowOf returns all columns of a flow.
func rowOf(r workload.Row) columns.Row {
	row := columns.Row{}
	v := reflect.ValueOf(r)
	for _, f := range reflect.VisibleFields(v.Type()) {
		name := f.Tag.Get("col")
		if name != "" {
			row[name] = v.FieldByIndex(f.Index).Interface()
		}
	}
	return row
}

// All text columns of a flow are labels. Clones do not change when the memory of the originals is reused.
func TestLabelsClone(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[workload.Row]()) {
		if f.Type.Kind() != reflect.String {
			continue
		}
		memory := []byte("web")
		var r workload.Row
		reflect.ValueOf(&r).Elem().FieldByIndex(f.Index).SetString(unsafe.String(&memory[0], len(memory)))
		labels := r.Labels.Clone()
		copy(memory, "new")
		r.Labels = labels
		got := reflect.ValueOf(r).FieldByIndex(f.Index).String()
		if got != "web" {
			t.Errorf("%s is %q", f.Name, got)
		}
	}
}

// The changes of flows are the same as in earlier versions, for services that are copied, thinned out and
// moved.
func TestChangeFlows(t *testing.T) {
	n := topologytest.MustClos(t, topologytest.SmallClos(4))
	services := mixedWorkload(t, 30_000)
	for i := range services.Services {
		services.Services[i].DSCP = int16(i + 1)
	}
	flows, _ := mustGenerate(t, n, services, 1)
	out := &flowTable{T: t}
	changes := workload.FlowChanges{
		Scale: map[string]float64{"db": 2.7, "web": 0.4, "hadoop": 1.5},
		Move:  map[string][]int{"hadoop": {1, 2, 7}},
	}
	var table batches
	for part := range slices.Chunk(flows.Rows, 1009) {
		table = append(table, columns.RecordOf(schema.Flows, part, rowOf))
	}
	open := func() schema.Batches { return new(slices.Clone(table)) }
	if _, err := workload.ChangeFlows(t.Context(), n, changes, 7, open, out); err != nil {
		t.Fatal(err)
	}
	digest := sha256.New()
	for _, r := range out.Rows {
		if r.Connection != r.ID || r.Background {
			t.Fatalf("a changed flow is not a separate connection: %+v", r)
		}
		row := rowOf(r)
		delete(row, "connection_id")
		delete(row, "background")
		fmt.Fprintln(digest, row) // by the names of the columns
	}
	want := "22d6e67600258507d70c943c24401ba2dc7fea754ba6733b9bb1612b7e194a52"
	got := fmt.Sprintf("%x", digest.Sum(nil))
	if got != want {
		t.Errorf("%d flows: digest %s, want %s", len(out.Rows), got, want)
	}

	// A note reports that hosts move to fewer ones.
	changes = workload.FlowChanges{Move: map[string][]int{"hadoop": {1}}}
	notes, err := workload.ChangeFlows(t.Context(), n, changes, 7, open, &flowTable{T: t})
	if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "hadoop moves from ") ||
		!strings.Contains(notes[0], " hosts to 8: ") {
		t.Errorf("%q, %v", notes, err)
	}

	// All services that are not named are scaled together.
	out = &flowTable{T: t}
	changes = workload.FlowChanges{Scale: map[string]float64{"db": 0, workload.OtherServices: 2}}
	if _, err := workload.ChangeFlows(t.Context(), n, changes, 7, open, out); err != nil {
		t.Fatal(err)
	}
	before := map[string]int{}
	after := map[string]int{}
	for _, name := range flows.Service {
		before[name] += 2
	}
	for _, name := range out.Service {
		after[name]++
	}
	delete(before, "db")
	if len(before) < 2 || !maps.Equal(before, after) {
		t.Errorf("%v, want %v", after, before)
	}
}

// If copies of a message took a separate path, a scaled service would use paths that its connections do
// not have.
func TestCopiesOfMessagesKeepTheirConnection(t *testing.T) {
	n := topologytest.MustClos(t, topologytest.SmallClos(4))
	hosts := n.Hosts()
	var rows []workload.Row
	for i := range int64(10) {
		rows = append(rows, workload.Row{ID: 100 + i, Connection: 7, Src: hosts[0], Dst: hosts[1], SizeBytes: 1,
			StartNS: i, Labels: workload.Labels{Service: "db"}})
	}
	out := &flowTable{T: t}
	changes := workload.FlowChanges{Scale: map[string]float64{"db": 2}}
	open := func() schema.Batches { return &batches{columns.RecordOf(schema.Flows, rows, rowOf)} }
	if _, err := workload.ChangeFlows(t.Context(), n, changes, 7, open, out); err != nil {
		t.Fatal(err)
	}
	ids := map[int64]bool{}
	for _, r := range out.Rows {
		ids[r.ID] = true
		if r.Connection != 7 {
			t.Errorf("flow %d is on connection %d, want 7", r.ID, r.Connection)
		}
	}
	if len(ids) != 20 {
		t.Errorf("%d flows of %d ids, want 20", len(out.Rows), len(ids))
	}
}

// changed returns the flows of a service after a change, between hosts of a small Clos network, and the
// number of notes.
func changed(
	t *testing.T, c workload.FlowChanges, rows ...workload.Row,
) (flows []workload.Row, notes int, err error) {
	t.Helper()
	n := topologytest.MustClos(t, topologytest.SmallClos(4))
	out := &flowTable{T: t}
	open := func() schema.Batches { return &batches{columns.RecordOf(schema.Flows, rows, rowOf)} }
	all, err := workload.ChangeFlows(t.Context(), n, c, 7, open, out)
	return out.Rows, len(all), err
}

// between returns flows of service "db", one for each pair of hosts.
func between(pairs ...[2]int32) (rows []workload.Row) {
	for i, p := range pairs {
		rows = append(rows, workload.Row{ID: int64(i), Connection: int64(i), Src: p[0], Dst: p[1], SizeBytes: 1,
			StartNS: int64(i), Labels: workload.Labels{Service: "db"}})
	}
	return rows
}

// The racks of a service become the new ones in order, and a host keeps its place in the rack. If both hosts
// of a flow become the same one, the flow goes to the next host: no host sends to itself.
func TestHostsOfAServiceThatMoves(t *testing.T) {
	racks := topologytest.MustClos(t, topologytest.SmallClos(4)).Racks()
	for name, c := range map[string]struct {
		to    []int
		pairs [][2]int32
		want  [][2]int32
		notes int // that hosts move to fewer ones
	}{
		"two racks to two": {
			[]int{31, 5},
			[][2]int32{{racks[0][2], racks[1][3]}, {racks[1][7], racks[0][7]}},
			[][2]int32{{racks[31][2], racks[5][3]}, {racks[5][7], racks[31][7]}}, 0,
		},
		"three racks to two": {
			[]int{5, 6},
			[][2]int32{{racks[0][2], racks[1][3]}, {racks[1][4], racks[3][5]}},
			[][2]int32{{racks[5][2], racks[6][3]}, {racks[6][4], racks[5][5]}}, 0,
		},
		"two racks to one": {
			[]int{5},
			[][2]int32{{racks[0][2], racks[1][2]}, {racks[1][7], racks[0][7]}, {racks[0][1], racks[1][4]}},
			[][2]int32{{racks[5][2], racks[5][3]}, {racks[5][7], racks[5][0]}, {racks[5][1], racks[5][4]}}, 1,
		},
	} {
		other := workload.Row{ID: 90, Connection: 90, Src: racks[0][2], Dst: racks[1][2], SizeBytes: 1, StartNS: 90,
			Labels: workload.Labels{Service: "web"}}
		moved := workload.FlowChanges{Move: map[string][]int{"db": c.to}}
		rows, notes, err := changed(t, moved, append(between(c.pairs...), other)...)
		if err != nil || len(rows) != len(c.pairs)+1 || rows[len(c.pairs)] != other || notes != c.notes {
			t.Fatalf("%s: %+v, %d notes, %v", name, rows, notes, err)
		}
		for i, want := range c.want {
			if rows[i].Src != want[0] || rows[i].Dst != want[1] {
				t.Errorf("%s: flow %d goes from %d to %d, want %v", name, i, rows[i].Src, rows[i].Dst, want)
			}
		}
	}
}

// Ranks of a job are assigned to the hosts of the new racks by id, so that no two share a host.
func TestRanksOfAJobThatMoves(t *testing.T) {
	racks := topologytest.MustClos(t, topologytest.SmallClos(4)).Racks()
	var pairs [][2]int32
	for i := range 8 {
		pairs = append(pairs, [2]int32{racks[0][i], racks[1][i]})
	}
	move := func(pairs [][2]int32, to ...int) ([]workload.Row, error) {
		c := workload.FlowChanges{Move: map[string][]int{"db": to}, Ranks: true}
		rows, _, err := changed(t, c, between(pairs...)...)
		return rows, err
	}
	rows, err := move(pairs, 9, 4)
	if err != nil || len(rows) != 8 {
		t.Fatalf("%d flows, %v", len(rows), err)
	}
	for i, r := range rows {
		if r.Src != racks[9][i] || r.Dst != racks[4][i] {
			t.Errorf("ranks %d and %d are on the hosts %d and %d", i, 8+i, r.Src, r.Dst)
		}
	}
	if _, err := move(pairs[:4], 9); err != nil {
		t.Errorf("eight ranks, on a rack of eight hosts: %v", err)
	}
	if _, err := move(pairs[:5], 9); err == nil || !strings.Contains(err.Error(), "has 10 hosts") {
		t.Errorf("ten ranks, on a rack of eight hosts: %v", err)
	}
}

// A change of services or racks that do not exist is refused. If it were ignored, a user would compare a
// network with itself.
func TestChangesThatDoNotApply(t *testing.T) {
	rows := between([2]int32{0, 1}, [2]int32{1, 0})
	move := func(name string, to ...int) workload.FlowChanges {
		return workload.FlowChanges{Move: map[string][]int{name: to}}
	}
	scale := func(name string) workload.FlowChanges {
		return workload.FlowChanges{Scale: map[string]float64{name: 0.5}}
	}
	for _, c := range []struct {
		change workload.FlowChanges
		want   string // "": it is accepted
	}{
		{move("db", 31), ""},
		{move("db", 32), "cannot move to rack 32: the racks are 0 to 31"},
		{move("db", -1), "cannot move to rack -1"},
		{move("db", 0), ""},
		{move("db"), "racks of 0 hosts"},
		{move("web", 0), `service "web" has no flows; the services are ["db"]`},
		{move("*", 0), `service "*" has no flows`},
		{scale("web"), `service "web" has no flows`},
		{scale("*"), ""},
	} {
		_, _, err := changed(t, c.change, rows...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.change, err, c.want)
		}
	}
}

// Copies of flows get ids above all others. If these overflowed, two flows would have the same id.
func TestIDsOfCopies(t *testing.T) {
	const most = math.MaxInt64
	twice := workload.FlowChanges{Scale: map[string]float64{"db": 2}}
	threeTimes := workload.FlowChanges{Scale: map[string]float64{"db": 3}}
	for _, c := range []struct {
		change workload.FlowChanges
		ids    []int64
		want   []int64 // in ascending order; nil: they are refused
	}{
		{twice, []int64{0, most - 3}, []int64{0, most - 3, most - 2, most - 1}},
		{twice, []int64{0, most - 2}, nil},
		{twice, []int64{most - 1}, nil},
		{threeTimes, []int64{3, 8}, []int64{3, 8, 9, 10, 11, 12}},
		{threeTimes, []int64{0, most - 5}, []int64{0, most - 5, most - 4, most - 3, most - 2, most - 1}},
		{threeTimes, []int64{0, most - 4}, nil},
	} {
		var rows []workload.Row
		for i, id := range c.ids {
			row := between([2]int32{0, 1})[0]
			row.ID = id
			row.StartNS = int64(i)
			rows = append(rows, row)
		}
		rows, _, err := changed(t, c.change, rows...)
		var got []int64
		for _, r := range rows {
			got = append(got, r.ID)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("copies of flows %v: ids %v, want %v; %v", c.ids, got, c.want, err)
		}
	}
	rows, _, err := changed(t, workload.FlowChanges{Scale: map[string]float64{"*": 2}})
	if err != nil || len(rows) != 0 {
		t.Errorf("copies of no flows: %v, %v", rows, err)
	}
}

// A service can move to a rack of two hosts, but not to one of a single host: no host sends to itself.
func TestSmallestRackThatAServiceMovesTo(t *testing.T) {
	n := topologytest.Wire(t, 6, 3, [2]int32{0, 3}, [2]int32{1, 3}, [2]int32{2, 4}, [2]int32{3, 5},
		[2]int32{4, 5})
	racks := n.Racks()
	if len(racks) != 2 || len(racks[0]) != 2 || len(racks[1]) != 1 {
		t.Fatalf("racks %v", racks)
	}
	open := func() schema.Batches {
		return &batches{columns.RecordOf(schema.Flows, between([2]int32{0, 2}, [2]int32{2, 1}), rowOf)}
	}
	for rack, want := range []bool{true, false} {
		c := workload.FlowChanges{Move: map[string][]int{"db": {rack}}}
		_, err := workload.ChangeFlows(t.Context(), n, c, 7, open, &flowTable{T: t})
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "racks of 1 hosts in all") {
			t.Errorf("a move to rack %d: %v", rack, err)
		}
	}
}
