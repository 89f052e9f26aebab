package workload_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
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
