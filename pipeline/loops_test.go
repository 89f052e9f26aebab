package pipeline_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/daily"
	"parsimon/stages/estimators"
)

const closedFlows = `flow_id,src,dst,size_bytes,start_ns,after,delay_ns
1,0,1,100000,0,,
2,1,2,100000,0,1,
3,2,2,0,0,2,50000
4,2,3,100000,0,2 3,100
5,3,0,100000,0,4,
6,0,2,50000,5000,,
7,1,1,0,0,,3000
8,1,3,1000,0,7,0
`

// For a flow file with a column after, the start times follow the definition for any number of workers.
// Giving the same start times as an open loop yields equal FCTs.
func TestClosedLoops(t *testing.T) {
	network, file := fixture.Trace(t, 1)
	fixture.WriteFile(t, file, closedFlows)
	dir := t.TempDir()
	var once string
	for workers := 1; workers <= 2; workers++ {
		dir = t.TempDir()
		e := estimates.Of(t, dir, estimates.Trace(t, network, file), pipeline.Variant{Auto: true},
			pipeline.Settings{Settings: engine.Settings{Workers: workers}})
		got := e.Variant().Estimator
		if got != estimators.Exact {
			t.Fatalf("auto took %s", got)
		}
		tables := pipeline.RowDigest(t, dir, schema.ExactFCTs, schema.ExactHops, schema.Slowdowns, schema.LinkStats)
		if once == "" {
			once = tables
		} else if once != tables {
			t.Error("tables differ by workers")
		}
	}
	wrong := `WITH e AS (SELECT flow_id, start_ns, start_ns + fct_ns AS end_ns FROM exact_fcts), w AS (
  SELECT f.flow_id, greatest(any_value(f.start_ns), coalesce(max(p.end_ns + d.delay_ns), 0)) AS want
  FROM flows AS f LEFT JOIN dependencies AS d USING (flow_id) LEFT JOIN e AS p ON p.flow_id = d.after_flow_id GROUP BY f.flow_id)
SELECT count(*) FILTER (want <> start_ns), count(*), (SELECT count(*) FROM slowdowns AS s JOIN e USING (flow_id, start_ns))
FROM w JOIN e USING (flow_id)`
	got := estimates.Ask(t, dir, wrong)
	if got != "[0 8 6]" {
		t.Errorf("wrong starts, flows, and slowdowns with these starts: %s", got)
	}
	open := estimates.Ask(t, dir,
		`SELECT string_agg(concat_ws(',', flow_id, src, dst, size_bytes, start_ns), chr(10) ORDER BY start_ns) FROM slowdowns`)
	fixture.WriteFile(t, file, "flow_id,src,dst,size_bytes,start_ns\n"+strings.Trim(open, "[]")+"\n")
	other := t.TempDir()
	estimates.Of(t, other, estimates.Trace(t, network, file), pipeline.Variant{Estimator: estimators.Exact},
		pipeline.Settings{})
	fcts := "SELECT string_agg(concat_ws(' ', flow_id, start_ns, fct_ns), ',' ORDER BY flow_id) FROM slowdowns"
	a := estimates.Ask(t, dir, fcts)
	b := estimates.Ask(t, other, fcts)
	if a != b {
		t.Errorf("closed %s\nopen %s", a, b)
	}
	model, err := pipeline.OpenModelIn(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	e, err := pipeline.Derive(t.Context(), model, scenario.Changes{FoundStarts: true},
		pipeline.Variant{Estimator: estimators.Flow}, pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Estimate(t.Context()); err != nil {
		t.Fatal(err)
	}
	agree := `SELECT count(*), count(*) FILTER (s.start_ns <> e.start_ns OR s.size_bytes <> e.size_bytes), max(abs(s.fct_ns / e.fct_ns - 1)) < 0.2
FROM slowdowns_all AS s JOIN exact_fcts AS e USING (flow_id) WHERE s.variant = 'flow-2'`
	if got := estimates.Ask(t, dir, agree); got != "[6 0 true]" {
		t.Errorf("flows that start when exact found, of them with other starts, FCTs near those of exact: %s", got)
	}
}

// Errors of closed loops name the flows. Only estimator exact accepts closed loops. The short form has two of
// the files each day.
func TestClosedLoopsAreRefused(t *testing.T) {
	network, file := fixture.Trace(t, 1)
	for i, c := range []struct {
		v         pipeline.Variant
		old, by   string
		want      string
		estimator bool
	}{
		{pipeline.Variant{Estimator: estimators.Flow}, "", "",
			"estimator flow do not go together: only the whole network finds their starts", true},
		{pipeline.Variant{}, "", "", "estimator independent do not go together: only the whole network finds " +
			"their starts", true},
		{pipeline.Variant{Auto: true}, "0,,\n2", "0,4,\n2",
			"3 flows wait for each other: 1 after 4 after 2 after 1", false},
		{pipeline.Variant{Auto: true}, "0,,\n2", "0,1,\n2", "flow 1 waits for itself (the first of 1)", false},
		{pipeline.Variant{Auto: true}, "0,,\n2", "0,9,\n2", "flow 1 waits for flow 9, which is not in the file",
			false},
		{pipeline.Variant{Auto: true}, "0,4,\n6", "0,4x,\n6", "after is not a list of flow ids", false},
		{pipeline.Variant{Auto: true}, ",7,0\n", ",7,-1\n", "delay_ns is not an integer from 0", false},
		{pipeline.Variant{Auto: true}, "8,1,3", "5,1,3", "flow ids are in several rows", false},
	} {
		if daily.Skips(i, 4) {
			continue
		}
		fixture.WriteFile(t, file, strings.Replace(closedFlows, c.old, c.by, 1))
		s := estimates.Trace(t, network, file)
		s.MaxRejects = 0
		e, err := pipeline.Begin(t.Context(), filepath.Join(t.TempDir(), "lake"), s, c.v, pipeline.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		err = e.Estimate(t.Context())
		e.Close()
		var closed scenario.Refusal
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &closed) != c.estimator {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}
