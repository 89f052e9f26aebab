package workload_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// flowTable is a sink that collects the columns of table flows.
type flowTable struct {
	T               testing.TB
	ID, Size, Start []int64
	Src, Dst        []int32
	Service, VNet   []string
	Rows            []workload.Row
	Batches         []int64
}

// Write implements schema.Sink. It fails the test on a batch of another schema.
func (f *flowTable) Write(rec arrow.Record) error {
	if !rec.Schema().Equal(schema.Flows.Arrow()) {
		f.T.Fatalf("schema %v", rec.Schema())
	}
	f.Batches = append(f.Batches, rec.NumRows())
	f.ID = append(f.ID, columns.Int64s(rec, "flow_id")...)
	f.Src = append(f.Src, columns.Int32s(rec, "src")...)
	f.Dst = append(f.Dst, columns.Int32s(rec, "dst")...)
	f.Size = append(f.Size, columns.Int64s(rec, "size_bytes")...)
	f.Start = append(f.Start, columns.Int64s(rec, "start_ns")...)
	f.Rows = columns.Append(f.Rows, rec)
	for i := len(f.Service); i < len(f.Rows); i++ {
		r := &f.Rows[i]
		r.Labels = r.Labels.Clone()
		f.Service = append(f.Service, r.Service)
		f.VNet = append(f.VNet, r.VNet)
	}
	return nil
}

// A rowCount is a sink that counts rows.
type rowCount int64

// Write implements schema.Sink.
func (n *rowCount) Write(rec arrow.Record) error {
	*n += rowCount(rec.NumRows())
	return nil
}

// nullSink discards batches.
type nullSink struct{}

// Write implements schema.Sink.
func (nullSink) Write(arrow.Record) error { return nil }

// shippedSizes reads a distribution of datasets/sizes.
func shippedSizes(t testing.TB, name string) *workload.SizeCDF {
	t.Helper()
	c, err := workload.ReadSizeCDF(filepath.Join("..", "..", "datasets", "sizes", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mustMatrix returns the matrix of a kind for seed 1.
func mustMatrix(t testing.TB, kind string, pods, racks int) *workload.Matrix {
	t.Helper()
	m, err := workload.NewMatrixOf(kind, pods, racks, 1)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// mixedWorkload is the paper's mix of three services (§5, "workload mixes"), with fewer flows.
func mixedWorkload(t testing.TB, flows int64) *workload.Workload {
	return &workload.Workload{MaxLoad: 0.5, Flows: flows, Services: []workload.Service{
		{Name: "db", VNet: "blue", Matrix: mustMatrix(t, workload.MatrixDatabase, 2, 16),
			Sizes: shippedSizes(t, "cachefollower"), Sigma: 2, Share: 1},
		{Name: "web", VNet: "green", Matrix: mustMatrix(t, workload.MatrixWebServer, 2, 16),
			Sizes: shippedSizes(t, "webserver"), Sigma: 2, Share: 1},
		{Name: "hadoop", VNet: "blue", Matrix: mustMatrix(t, workload.MatrixHadoop, 2, 16),
			Sizes: shippedSizes(t, "hadoop"), Sigma: 1, Share: 2},
	}}
}

// mustGenerate generates a workload.
func mustGenerate(t testing.TB, n *topology.Network, w *workload.Workload,
	seed uint64) (*flowTable, *workload.Plan) {
	t.Helper()
	out := &flowTable{T: t}
	plan, err := workload.Generate(context.Background(), topologytest.MustRouter(t, n, seed), w, seed, out)
	if err != nil {
		t.Fatal(err)
	}
	return out, plan
}

// sharedFile returns a file of the reference data, which some machines keep beside the repository. Where it
// is missing the test is skipped.
func sharedFile(t testing.TB, parts ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{"..", "..", "..", "shared", "reference"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("reference data is missing: %v", err)
	}
	return path
}
