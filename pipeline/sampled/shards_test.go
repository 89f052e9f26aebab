package sampled

import (
	"context"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/stages"
)

// begin opens the scenario of a trace on topology small-2to1.
// Windows that are prepared, and estimated stage by stage in two shards each, give the rows of one process.
func TestShards(t *testing.T) {
	ctx, flows, dir := context.Background(), writeTrace(t, 20_000), t.TempDir()
	ask := Ask{Within: 0.3, Of: []float64{0.9}, Confidence: 0.95}
	prepared := 0
	for {
		base := begin(t, dir, flows)
		ids, err := Prepare(ctx, base, ask)
		if err != nil {
			t.Fatal(err)
		}
		base.Close()
		if len(ids) == 0 {
			break
		}
		for _, id := range ids {
			estimateInShards(t, dir, id)
		}
		if prepared += len(ids); prepared > 20 {
			t.Fatal("windows are prepared without end")
		}
	}
	if prepared < 2 {
		t.Fatalf("%d scenarios of windows prepared, want the first round and that of the warm-up", prepared)
	}
	got, want := runAsk(t, dir, flows, ask), runAsk(t, t.TempDir(), flows, ask)
	for _, s := range got.Stages {
		if s.Stage != pipeline.CombineStage("", "").Name && s.Stage != "generate" && s.Reused < s.Tasks {
			t.Errorf("stage %s: %d of %d tasks done again", s.Stage, s.Tasks-s.Reused, s.Tasks)
		}
	}
	if got.Windows != want.Windows || len(got.Rows) != len(want.Rows) {
		t.Fatalf("%d windows, %d rows; of one process %d, %d", got.Windows, len(got.Rows), want.Windows, len(want.Rows))
	}
	for i, row := range want.Rows {
		if x := got.Rows[i]; x.Estimate != row.Estimate || x.Lo != row.Lo || x.Hi != row.Hi {
			t.Errorf("%v, of one process %v", x, row)
		}
	}
}

// estimateInShards does the stages of prepared windows, each in two shards.
func estimateInShards(t *testing.T, dir, id string) {
	t.Helper()
	variant := pipeline.Variant{Estimator: stages.Independent}
	var names []string
	for i := 0; i == 0 || i < len(names); i++ {
		for shard := range 2 {
			settings := pipeline.Settings{}
			settings.Shard = engine.Shard{Index: shard, Count: 2}
			settings.Partitions = 4
			e, err := pipeline.Resume(context.Background(), dir, id, variant, settings)
			if err != nil {
				t.Fatal(err)
			}
			if names == nil {
				for _, s := range e.Plan()[1:] { // their flows are there
					names = append(names, s.Name)
				}
			}
			if err := e.RunStage(context.Background(), names[i]); err != nil {
				t.Fatalf("%s, shard %d: %v", names[i], shard, err)
			}
			e.Close()
		}
	}
}
