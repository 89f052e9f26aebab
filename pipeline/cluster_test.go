package pipeline

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/daily"
	"parsimon/stages/estimators"
	"parsimon/stages/linksim"
)

// If only links with identical flows share a case, clustering changes no row. With a wide limit, fewer cases
// are simulated, every flow has an estimate, and the rows do not depend on the partitions of the links.
func TestClusteredRuns(t *testing.T) {
	v := independent
	file := fixture.Services(t)
	run := func(cluster string, workers, partitions int) (string, linksim.Stats) {
		t.Helper()
		o := options{Lake: t.TempDir(), Variant: v, Workers: workers, Partitions: partitions}
		variant := v.String()
		if cluster != "" {
			var err error
			if o.Cluster, err = linksim.ParseClustering(cluster); err != nil {
				t.Fatal(err)
			}
			variant += "-cluster-" + o.Cluster.String()
		}
		s, err := scenario.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		r := estimateScenario(t, s, o)
		if r.Variant().String() != variant {
			t.Errorf("variant %s, want %s", r.Variant(), variant)
		}
		state, status := stateOf(t, o.Lake)
		if state != StateComplete {
			t.Errorf("status %+v", status)
		}
		text := textOf(t, o.Lake, schema.Slowdowns, r.ID(), variant)
		delaysAreOfHops(t, r)
		return text, casesOf(t, r)
	}
	whole, plain := run("", 0, 3)
	same, all := run("1e-9%", 0, 5) // only links with identical flows share a case
	if same != whole || all.Cases < plain.Cases*3/4 {
		t.Errorf("links of the very same flows: %d of %d cases, rows differ: %v", all.Cases, plain.Cases,
			same != whole)
	}
	wide, cases := run("50%", 1, 1)
	if cases.Cases == 0 || cases.Cases > all.Cases/2 {
		t.Errorf("%d of %d cases", cases.Cases, all.Cases)
	}
	cuts := [][2]int{{2, 9}, {8, 64}}
	if testing.Short() {
		cuts = cuts[:1]
	}
	for _, cut := range cuts {
		again, _ := run("0.5", cut[0], cut[1])
		if again != wide {
			t.Errorf("%d workers, %d partitions: other rows", cut[0], cut[1])
		}
	}
}

// delaysAreOfHops checks that each row of hop_contributions is about a different hop of table hops, and that
// the hops of each flow add up to its delay.
func delaysAreOfHops(t *testing.T, r *Estimation) {
	t.Helper()
	type at struct {
		Row  int64 `col:"flow_row"`
		Hop  int16 `col:"hop"`
		Link int32 `col:"link_id"`
	}
	type contribution struct {
		at
		NS float64 `col:"delay_ns"`
	}
	type flow struct {
		Row     int64 `col:"flow_row"`
		FCTNS   int64 `col:"fct_ns"`
		IdealNS int64 `col:"ideal_ns"`
	}
	hops := map[at]bool{}
	left := map[int64]float64{}
	read := func(table schema.Table) schema.Batches {
		in, err := r.Read(table)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	err := errors.Join(
		columns.Each(read(schema.Hops), func(h *at) error { hops[*h] = true; return nil }),
		columns.Each(read(schema.Slowdowns), func(f *flow) error {
			left[f.Row] = float64(f.FCTNS - f.IdealNS)
			return nil
		}),
		columns.Each(read(schema.HopContributions), func(c *contribution) error {
			if !hops[c.at] {
				return fmt.Errorf("%+v is no hop, or has two rows", c.at)
			}
			delete(hops, c.at)
			left[c.Row] -= c.NS
			return nil
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	for row, ns := range left {
		if math.Abs(ns) > 0.51 {
			t.Fatalf("flow row %d: its hops add %v ns less than its delay", row, ns)
		}
	}
}

// If a clustered run is killed, the same command continues it and produces the same rows. In the short form,
// it is killed in one of the stages each day.
func TestKilledClusteredRunContinues(t *testing.T) {
	topology, flows := fixture.Trace(t, 1500)
	c, err := linksim.ParseClustering("50%")
	if err != nil {
		t.Fatal(err)
	}
	o := options{Lake: t.TempDir(), Variant: independent, Workers: 2, Partitions: 9}
	o.Cluster = c
	estimate(t, topology, flows, o)
	want := digestOf(t, o.Lake, estimators.Independent)
	const after = 2
	for i, stage := range []string{"cluster", "simulate", "draw"} {
		if daily.Skips(i, 3) {
			continue
		}
		o.Lake = t.TempDir()
		killedChild(t, o.Lake, flows, stage, after, childBy+"=independent", childCluster+"=50%")
		run := estimate(t, topology, flows, o)
		got := digestOf(t, o.Lake, estimators.Independent)
		if got != want {
			t.Errorf("killed in %s: %s, want %s", stage, got, want)
		}
		kept := run.Executor().Reports[0]
		if stage != "cluster" && kept.Reused != kept.Tasks {
			t.Errorf("killed in %s: %s was done again", stage, kept.Stage)
		}
	}
}
