package sampled

import (
	"fmt"
	"os"
	"sort"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
)

func TestZZ(t *testing.T) {
	if os.Getenv("ZZ_WHOLE") == "" {
		t.Skip()
	}
	type fl struct {
		start, size int64
		s           float64
		win         int32
		w           float64
	}
	flows := map[int64]fl{}
	type span struct{ from, to int64 }
	wins := map[int32]span{}
	l2, err := lake.Open(os.Getenv("ZZ_SAMPLED"), false)
	if err != nil {
		t.Fatal(err)
	}
	id := lake.ScenarioID(os.Getenv("ZZ_ID"))
	m, _, err := l2.ReadManifest(lake.Place{Scenario: id, Variant: os.Getenv("ZZ_VARIANT")})
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range m.Files {
		tab, _ := f.Table()
		if tab.Name == "windows" {
			if err := columns.Consume(l2.Read(schema.Windows, m.Files[i:i+1], nil, nil), func(rec arrow.Record) error {
				for i, n := range columns.Int32s(rec, "window") {
					wins[n] = span{columns.Int64s(rec, "from_ns")[i], columns.Int64s(rec, "to_ns")[i]}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if tab.Name == "sampled_slowdowns" {
			if err := columns.Consume(l2.Read(schema.SampledSlowdowns, m.Files[i:i+1], nil, nil), func(rec arrow.Record) error {
				for i, n := range columns.Int64s(rec, "flow_id") {
					flows[n] = fl{columns.Int64s(rec, "start_ns")[i], columns.Int64s(rec, "size_bytes")[i], columns.Float64s(rec, "slowdown")[i], columns.Int32s(rec, "window")[i], columns.Float64s(rec, "weight")[i]}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	l, err := lake.Open(os.Getenv("ZZ_WHOLE"), false)
	if err != nil {
		t.Fatal(err)
	}
	model, err := pipeline.OpenModel(l, string(id))
	if err != nil {
		t.Fatal(err)
	}
	v, _ := pipeline.BestVariant(model)
	run := pipeline.ReadOnly(model, v, pipeline.Settings{})
	type pr struct{ a, b, w float64 }
	groups := map[string][]pr{}
	in, err := run.Read(schema.Slowdowns, []string{"flow_id", "size_bytes", "start_ns", "slowdown"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = columns.Consume(in, func(rec arrow.Record) error {
		for i, n := range columns.Int64s(rec, "flow_id") {
			f, ok := flows[n]
			if !ok {
				continue
			}
			x := pr{columns.Float64s(rec, "slowdown")[i], f.s, f.w}
			w := wins[f.win]
			q := int(8 * (f.start - w.from) / (w.to - w.from))
			bin := "small"
			if f.size > 1e6 {
				bin = "big"
			} else if f.size > 1e5 {
				bin = "mid"
			}
			for _, g := range []string{"all", fmt.Sprint("eighth ", q), "size " + bin, fmt.Sprint(bin, " eighth ", q)} {
				groups[g] = append(groups[g], x)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for g := range groups {
		names = append(names, g)
	}
	sort.Strings(names)
	quant := func(p []pr, q float64, f func(pr) float64) float64 {
		sort.Slice(p, func(i, j int) bool { return f(p[i]) < f(p[j]) })
		total := 0.0
		for _, x := range p {
			total += x.w
		}
		sum := 0.0
		for _, x := range p {
			if sum += x.w; sum >= q*total {
				return f(x)
			}
		}
		return 0
	}
	for _, g := range names {
		p := groups[g]
		fmt.Printf("%-20s %8d", g, len(p))
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999} {
			a, b := quant(p, q, func(x pr) float64 { return x.a }), quant(p, q, func(x pr) float64 { return x.b })
			fmt.Printf("  %.3f %.3f %+.2f%%", a, b, 100*(b/a-1))
		}
		fmt.Println()
	}
}
