package laws

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

type flowRow struct {
	Src   int32 `parquet:"src"`
	Dst   int32 `parquet:"dst"`
	Size  int64 `parquet:"size_bytes"`
	Start int64 `parquet:"start_ns"`
}

type fctRow struct {
	FlowID int64 `parquet:"flow_id"`
	FCT    int64 `parquet:"fct_ns"`
}

// Simulations of whole networks obey the laws: no flow violates one, not even slightly.
func TestExactKeepsTheLaws(t *testing.T) {
	hard := "../../../shared/reference/hard"
	found, _ := filepath.Glob(filepath.Join(hard, "*", "exact.parquet"))
	if len(found) == 0 {
		t.Skipf("no results of whole networks in %s", hard)
	}
	if os.Getenv("PARSIMON_LONG") == "" {
		found = found[:min(2, len(found))]
	}
	for _, path := range found {
		dir := filepath.Dir(path)
		l, err := format.Load(filepath.Join(dir, "topology.json"), format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		n, err := l.Usable()
		if err != nil {
			t.Fatal(err)
		}
		r, err := topology.NewRouter(t.Context(), n, 1) // the seed of these simulations
		if err != nil {
			t.Fatal(err)
		}
		rows, err := parquet.ReadFile[flowRow](filepath.Join(dir, "flows.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		fcts, err := parquet.ReadFile[fctRow](path)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(fcts, func(a, b fctRow) int {
			return cmp.Or(cmp.Compare(rows[a.FlowID].Start, rows[b.FlowID].Start), cmp.Compare(a.FlowID, b.FlowID))
		})
		c := New(n, simkernel.DefaultParams())
		var flows []Flow
		for _, f := range fcts {
			row := rows[f.FlowID]
			route, err := r.Path(f.FlowID, row.Src, row.Dst, nil)
			if err != nil {
				t.Fatal(err)
			}
			flows = append(flows, Flow{f.FlowID, row.Start, f.FCT, row.Size, route})
		}
		for run := range slices.Chunk(flows, 10_000) {
			if err := c.Begin(run); err != nil {
				t.Fatal(err)
			}
		}
		got := c.Report()
		if got.Flows < 1000 || got.Early.WorstNS != 0 || got.Late.WorstNS != 0 {
			t.Errorf("%s: %+v", dir, got)
		}
	}
}
