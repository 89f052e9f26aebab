package newflows

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/internal/rows"
	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
	"parsimon/stages/rng"
)

func TestMain(m *testing.M) {
	parquet.PoisonFreed = true // a reader of a released batch finds wrong values
	os.Exit(m.Run())
}

// A question outside the workload: an idle pair is ideal, and answers are the same every time.
func TestAsk(t *testing.T) {
	clustering, err := stages.ParseClustering("50%")
	if err != nil {
		t.Fatal(err)
	}
	independent, flow := pipeline.Variant{}, pipeline.Variant{Estimator: stages.Flow, Passes: pipeline.MaxPasses}
	for _, v := range []pipeline.Variant{independent, flow, {Cluster: clustering}, {Estimator: stages.WholeNetwork}} {
		t.Run(v.String(), func(t *testing.T) { testAsk(t, v) })
	}
}

func testAsk(t *testing.T, v pipeline.Variant) {
	topology, flows := fixture.Trace(t, 3000)
	dir := t.TempDir()
	estimates.Of(t, dir, estimates.Trace(t, topology, flows), v, pipeline.Settings{})
	model, err := pipeline.OpenModel(rows.Open(t, dir), "")
	if err != nil {
		t.Fatal(err)
	}
	best, err := pipeline.BestVariant(model)
	if err != nil || best.String() != v.String() {
		t.Fatalf("picked %s, the lake holds %s: %v", best, v, err)
	}
	run := pipeline.ReadOnly(model, best, pipeline.Settings{})
	ask := func(q Question) (*Answer, error) { return Ask(t.Context(), run, q) }
	a, err := ask(Question{Src: 0, Dst: 5, SizeBytes: 20_000, N: 4000, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ask(Question{Src: 0, Dst: 5, SizeBytes: 20_000, N: 4000, Seed: 1})
	if err != nil || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("two answers: %v, %v, %v", a, b, err)
	}
	for i, q := range a.Quantiles {
		if q.Slowdown < 1 || i > 0 && q.Slowdown < a.Quantiles[i-1].Slowdown {
			t.Errorf("quantiles %+v", a.Quantiles)
		}
	}
	if a.Paths != 2 {
		t.Errorf("%d paths between racks joined by two fabric switches", a.Paths)
	}
	twin(t, run, Question{Src: 0, Dst: 1, SizeBytes: 3000, N: 1000, Seed: 2})
	for _, q := range []Question{{Src: 0, Dst: 0, SizeBytes: 1, N: 1}, {Src: 0, Dst: 99, SizeBytes: 1, N: 1}, {Src: 0, Dst: 5, N: 1}, {Src: 0, Dst: 5, SizeBytes: 1}} {
		if _, err := ask(q); err == nil {
			t.Errorf("%+v is answered", q)
		}
	}
}

// A hopOf is what a flow met at a link.
type hopOf struct {
	row, startNS int64
	distance     float64 // of its size
	delayNS      float64
}

// twin answers a question about a single path flow by flow, and compares.
func twin(t *testing.T, run *pipeline.Estimation, q Question) {
	t.Helper()
	starts, sizes, links := map[int64]int64{}, map[int64]int64{}, map[int32][]hopOf{}
	var order []int64
	read(t, run, schema.Slowdowns, func(v *struct {
		Row   []int64 `col:"flow_row"`
		Size  []int64 `col:"size_bytes"`
		Start []int64 `col:"start_ns"`
	}) error {
		for i, row := range v.Row {
			starts[row], sizes[row], order = v.Start[i], v.Size[i], append(order, v.Start[i])
		}
		return nil
	})
	read(t, run, schema.HopContributions, func(v *struct {
		Row   []int64   `col:"flow_row"`
		Link  []int32   `col:"link_id"`
		Delay []float64 `col:"delay_ns"`
		Wait  []float64 `col:"wait_ns"`
	}) error {
		for i, row := range v.Row {
			share := float64(run.Spec.Params.Packets(q.SizeBytes)) / float64(run.Spec.Params.Packets(sizes[row]))
			links[v.Link[i]] = append(links[v.Link[i]], hopOf{row, starts[row],
				math.Abs(math.Log(float64(sizes[row]) / float64(q.SizeBytes))), v.Wait[i] + (v.Delay[i]-v.Wait[i])*share})
		}
		return nil
	})
	path, err := run.Router.Path(0, q.Src, q.Dst, nil)
	if err != nil {
		t.Fatal(err)
	}
	begin, delays := rng.New(q.Seed, rng.Sample, 0, 0), make([]int64, q.N)
	offset := begin.Float64()
	for _, link := range path {
		near := links[link]
		slices.SortFunc(near, func(a, b hopOf) int { return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.row, b.row)) })
		for i := range near {
			if i >= 100 && near[i].distance > math.Ln2/2 {
				near = near[:i]
				break
			}
		}
		slices.SortFunc(near, func(a, b hopOf) int { return cmp.Compare(a.row, b.row) })
		for i := range delays {
			moment := order[int((float64(i)+offset)*float64(len(order))/float64(q.N))]
			donor := near[0]
			for _, h := range near {
				if h.startNS <= moment || h.startNS == near[0].startNS {
					donor = h
				}
			}
			delays[i] += int64(math.Round(donor.delayNS))
		}
	}
	slices.Sort(delays)
	a, err := Ask(t.Context(), run, q)
	if err != nil || a.Paths != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, x := range a.Quantiles {
		if want := delays[int(math.Ceil(x.P*float64(q.N)))-1]; x.FCTNS-x.IdealNS != want || want == 0 && x.P > 0.9 {
			t.Errorf("quantile %g: a delay of %d ns, want %d", x.P, x.FCTNS-x.IdealNS, want)
		}
	}
}

// read reads a table of an estimate.
func read[T any](t *testing.T, run *pipeline.Estimation, table schema.Table, do func(*T) error) {
	t.Helper()
	in, err := run.Read(table, nil, nil)
	if err == nil {
		err = columns.Each(in, do)
	}
	if err != nil {
		t.Fatal(err)
	}
}
