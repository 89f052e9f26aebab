// Package workloadtest holds workloads for tests.
package stages

import (
	"context"
	"parsimon/schema"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// flowTable collects batches of table flows.
type flowTable struct {
	t               testing.TB
	id, size, start []int64
	src, dst        []int32
	service, vnet   []string
	batches         []int64
}

func (f *flowTable) Write(rec arrow.Record) error {
	if !rec.Schema().Equal(schema.Flows.Arrow()) {
		f.t.Fatalf("schema %v", rec.Schema())
	}
	f.batches = append(f.batches, rec.NumRows())
	f.id = append(f.id, int64s(rec, "flow_id")...)
	f.src = append(f.src, int32s(rec, "src")...)
	f.dst = append(f.dst, int32s(rec, "dst")...)
	f.size = append(f.size, int64s(rec, "size_bytes")...)
	f.start = append(f.start, int64s(rec, "start_ns")...)
	service := rec.Column(schema.Flows.Index("service")).(*array.String)
	vnet := rec.Column(schema.Flows.Index("vnet")).(*array.String)
	for i := range service.Len() {
		// Cloned: the strings would point into the batch.
		f.service = append(f.service, strings.Clone(service.Value(i)))
		f.vnet = append(f.vnet, strings.Clone(vnet.Value(i)))
	}
	return nil
}

type nullSink struct{}

// shippedSizes are the distributions of datasets/sizes.
func shippedSizes(t testing.TB, name string) *SizeCDF {
	t.Helper()
	c, err := ReadSizeCDF(filepath.Join(repository(t), "datasets", "sizes", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustMatrix(t testing.TB, kind string, pods, racks int) *Matrix {
	t.Helper()
	m, err := NewMatrixOf(kind, pods, racks, 1)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// mixedWorkload is the paper's mix of three services (§5, "workload mixes"), with fewer flows.
func mixedWorkload(t testing.TB, flows int64) *Workload {
	return &Workload{MaxLoad: 0.5, Flows: flows, Services: []Service{
		{Name: "db", VNet: "blue", Matrix: mustMatrix(t, MatrixDatabase, 2, 16), Sizes: shippedSizes(t, "cachefollower"), Sigma: 2, Share: 1},
		{Name: "web", VNet: "green", Matrix: mustMatrix(t, MatrixWebServer, 2, 16), Sizes: shippedSizes(t, "webserver"), Sigma: 2, Share: 1},
		{Name: "hadoop", VNet: "blue", Matrix: mustMatrix(t, MatrixHadoop, 2, 16), Sizes: shippedSizes(t, "hadoop"), Sigma: 1, Share: 2},
	}}
}

func generate(t testing.TB, n *Network, w *Workload, seed uint64) (*flowTable, GenerateStats) {
	t.Helper()
	out := &flowTable{t: t}
	stats, err := Generate(context.Background(), n, mustRouter(t, n, seed), w, seed, out)
	if err != nil {
		t.Fatal(err)
	}
	return out, stats
}
