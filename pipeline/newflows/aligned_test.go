package newflows

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages"
	"parsimon/stages/rng"
	"parsimon/stages/topology/topologytest"
)

// A drawRule says how the draws choose their donors.
type drawRule int

const (
	drawAligned    drawRule = iota // as Ask does for estimator Flow
	drawWaitsWhole                 // donors at random, waits taken as they are
	drawNormalised                 // donors at random, the whole delay per packet: the paper's draws
)

// leaveOneOut treats every flow of the run's workload as a question, itself not among the donors, and
// answers their slowdowns in the order of their rows.
func leaveOneOut(t *testing.T, run *pipeline.Estimation, rule drawRule) []float64 {
	t.Helper()
	ctx := context.Background()
	flows, err := run.Files(schema.Flows)
	if err != nil {
		t.Fatal(err)
	}
	var draws []draw
	err = columns.Consume(run.Lake.Read(schema.Flows, flows, nil, nil), func(rec arrow.Record) error {
		ids, src, dst, size := columns.Int64s(rec, "flow_id"), columns.Int32s(rec, "src"), columns.Int32s(rec, "dst"), columns.Int64s(rec, "size_bytes")
		for i := range ids {
			path, err := run.Router.Path(ids[i], src[i], dst[i], nil)
			if err != nil {
				t.Error(err)
			}
			draws = append(draws, draw{path: path, sizeBytes: size[i], except: int64(len(draws))})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range draws {
		s := rng.New(1, rng.Sample, uint64(i), 0)
		draws[i].row = int64(s.IntN(len(draws)))
	}
	if rule == drawAligned {
		err = asker{run}.meet(ctx, draws)
	} else {
		err = meetAnyone(ctx, run, draws, rule)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(draws))
	var scratch simkernel.IdealPath
	for i := range draws {
		out[i] = 1 + draws[i].delayNS/float64(asker{run}.ideal(&draws[i], &scratch))
	}
	return out
}

// meetAnyone is meet with donors drawn from the size's bucket at random, at each hop on its own.
func meetAnyone(ctx context.Context, run *pipeline.Estimation, draws []draw, rule drawRule) error {
	crossing, links := map[int32][]int32{}, []int32(nil)
	for i := range draws {
		for _, link := range draws[i].path {
			if crossing[link] == nil {
				links = append(links, link)
			}
			crossing[link] = append(crossing[link], int32(i))
		}
	}
	slices.Sort(links)
	var taken []donation
	err := asker{run}.eachLink(ctx, links, func(link int32, flows *stages.LinkFlows) {
		for _, i := range crossing[link] {
			d := &draws[i]
			bucket := flows.Bucket(d.sizeBytes)
			s := rng.New(2, rng.Sample, uint64(i), uint64(link))
			for range min(8, len(bucket)-1) { // not itself, but for a chance that is nothing in a bucket of a hundred
				donor := bucket[s.IntN(len(bucket))]
				if row, _, _ := flows.Flow(donor); row != d.except {
					taken = append(taken, asker{run}.donate(flows, donor, link, i, d.sizeBytes))
					break
				}
			}
		}
	})
	if err != nil {
		return err
	}
	return asker{run}.lookUp(ctx, taken, func(t donation, delayNS, waitNS float64) {
		if rule == drawNormalised {
			waitNS = 0
		}
		draws[t.draw].delayNS += waitNS + (delayNS-waitNS)*t.share
	})
}

// slowdownsOf reads the run's estimates, in the order of the flows, with their sizes and ids.
func slowdownsOf(t *testing.T, run *pipeline.Estimation) (slowdown []float64, size, id, ideal []int64) {
	t.Helper()
	in, err := run.Read(schema.Slowdowns, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = columns.Consume(in, func(rec arrow.Record) error {
		slowdown = append(slowdown, columns.Float64s(rec, "slowdown")...)
		size, id, ideal = append(size, columns.Int64s(rec, "size_bytes")...), append(id, columns.Int64s(rec, "flow_id")...), append(ideal, columns.Int64s(rec, "ideal_ns")...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slowdown, size, id, ideal
}

// distance is the mean distance of the logarithms of the order statistics: Wasserstein-1.
func distance(a, b []float64) float64 {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	var sum float64
	for i := range a {
		sum += math.Abs(math.Log(a[i] / b[i]))
	}
	return sum / float64(len(a))
}

// Where bursts come to all links at the same time, draws aligned in time give the distribution of the
// flows' slowdowns, and independent draws do not: they mix a burst on one link with silence on the next.
func TestAlignedDrawsFollowBursts(t *testing.T) {
	topology, file := fixture.Trace(t, 1)
	var b strings.Builder
	b.WriteString("flow_id,src,dst,size_bytes,start_ns\n")
	rng := rand.New(rand.NewPCG(5, 6))
	clock := int64(1_000_000)
	const flows = 12_000
	for i := range flows {
		if i%200 < 100 { // a burst on all links, then silence that long that queues drain
			clock += rng.Int64N(1500)
		} else {
			clock += rng.Int64N(40_000)
		}
		src := rng.IntN(4)
		fmt.Fprintf(&b, "%d,%d,%d,%d,%d\n", i, src, 4+rng.IntN(4), 500+rng.IntN(8000), clock) // all through the core
	}
	fixture.WriteFile(t, file, b.String())
	dir := t.TempDir()
	flow := pipeline.Variant{Estimator: stages.Flow, Passes: pipeline.MaxPasses}
	run := estimates.Of(t, dir, estimates.Trace(t, topology, file), flow, pipeline.Settings{})
	own, _, _, _ := slowdownsOf(t, run)
	aligned, whole, normalised := leaveOneOut(t, run, drawAligned), leaveOneOut(t, run, drawWaitsWhole), leaveOneOut(t, run, drawNormalised)
	toAligned, toWhole, toNormalised := distance(aligned, own), distance(whole, own), distance(normalised, own)
	t.Logf("distance to the flows' own slowdowns: aligned %.4f, at random %.4f, at random and per packet %.4f", toAligned, toWhole, toNormalised)
	if toAligned > 0.75*toWhole || toAligned > 0.75*toNormalised {
		t.Errorf("aligned draws are %.4f away, draws at random %.4f and %.4f", toAligned, toWhole, toNormalised)
	}
	if !slices.Equal(aligned, leaveOneOut(t, run, drawAligned)) {
		t.Error("two answers to the same questions")
	}
}

// Questions that are answered from another estimate than the flow's own: leave-one-out against ns-3, as
// a table (make question-accuracy).
func TestQuestionAccuracy(t *testing.T) {
	if os.Getenv("PARSIMON_LONG") == "" {
		t.Skip("long: make question-accuracy runs it")
	}
	out := "\n| scenario | flow sizes | flows | the paper's draws: p50 / p90 / p99 | per packet, at random | waits whole, at random | aligned | (the flow's own) |\n|---|---|---|---|---|---|---|---|\n"
	for _, c := range [][2]string{{"47", "cluster_4_to_1"}, {"1001", "cluster_4_to_1"}, {"95", "cluster_2_to_1"}} {
		out += questionRows(t, c[0], topologytest.SharedReference(t, "topologies", c[1]+".json"), topologytest.SharedReference(t, "scenarios", c[0]))
	}
	t.Log(out)
}

func questionRows(t *testing.T, name, topology, dir string) string {
	lake, trace := t.TempDir(), estimates.Trace(t, topology, filepath.Join(dir, "flows.parquet"))
	run := estimates.Of(t, lake, trace, pipeline.Variant{Estimator: stages.Flow}, pipeline.Settings{})
	independent := estimates.Of(t, lake, trace, pipeline.Variant{}, pipeline.Settings{})
	own, size, id, ideal := slowdownsOf(t, run)
	paper, _, _, _ := slowdownsOf(t, independent)
	answers := [][]float64{paper, leaveOneOut(t, run, drawNormalised), leaveOneOut(t, run, drawWaitsWhole), leaveOneOut(t, run, drawAligned), own}
	truth := truthOf(t, filepath.Join(dir, "ns3.parquet"), id, ideal)
	var b strings.Builder
	for _, bin := range []struct {
		name     string
		from, to int64
	}{{"<10 KB", 0, 10_000}, {"10-100 KB", 10_000, 100_000}, {"100 KB-1 MB", 100_000, 1_000_001}, {">1 MB", 1_000_001, math.MaxInt64}, {"all", 0, math.MaxInt64}} {
		in := func(values []float64) (out []float64) {
			for i, x := range values {
				if size[i] >= bin.from && size[i] < bin.to {
					out = append(out, x)
				}
			}
			slices.Sort(out)
			return out
		}
		tru := in(truth)
		fmt.Fprintf(&b, "| %s | %s | %d |", name, bin.name, len(tru))
		for _, a := range answers {
			est := in(a)
			var cells []string
			for _, p := range []float64{0.5, 0.9, 0.99} {
				at := int(p * float64(len(est)-1))
				cells = append(cells, fmt.Sprintf("%+.0f%%", 100*(est[at]/tru[at]-1)))
			}
			fmt.Fprintf(&b, " %s |", strings.Join(cells, " / "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// truthOf is the true slowdowns of the flows, over the estimate's ideal FCTs.
func truthOf(t *testing.T, file string, id, ideal []int64) []float64 {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(fmt.Sprintf("SELECT flow_id, fct_ns FROM read_parquet('%s')", file))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	fct := map[int64]float64{}
	for rows.Next() {
		var flow int64
		var ns float64
		if err := rows.Scan(&flow, &ns); err != nil {
			t.Fatal(err)
		}
		fct[flow] = ns
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(id))
	for i := range id {
		out[i] = fct[id[i]] / float64(ideal[i])
	}
	return out
}
