package sampled

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages"
)

// writeGroups writes flows of 1 to 50 KB of 50 a ms: one in ten is of service few, between hosts of the first rack, the
// others are between 64 hosts.
func writeGroups(t *testing.T, flows int) string {
	t.Helper()
	random, text := rand.New(rand.NewPCG(2, 3)), strings.Builder{}
	text.WriteString("src,dst,size_bytes,start_ns,service\n")
	for i := range flows {
		hosts, service := 64, "rest"
		if i%10 == 0 {
			hosts, service = 8, "few"
		}
		src := random.IntN(hosts)
		fmt.Fprintf(&text, "%d,%d,%d,%d,%s\n", src, (src+1+random.IntN(hosts-1))%hosts, 1000+random.IntN(49000),
			random.Int64N(400e6), service)
	}
	path := filepath.Join(t.TempDir(), "flows.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// beginFlow opens the scenario of a trace for estimator flow.
func beginFlow(t *testing.T, dir, flows string) *pipeline.Estimation {
	t.Helper()
	s, err := scenario.FromFiles("small-2to1", flows)
	if err != nil {
		t.Fatal(err)
	}
	e, err := pipeline.Begin(context.Background(), dir, s, pipeline.Variant{Estimator: stages.Flow}, pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// Hosts that send no flow of the group need no replay: the group's rows are the same without. Other flows have no rows.
func TestSilentHosts(t *testing.T) {
	ctx := context.Background()
	s, err := start(ctx, beginFlow(t, t.TempDir(), writeGroups(t, 20_000)),
		Ask{Within: 0.02, Of: []float64{0.99}, Confidence: 0.95, By: "service=few"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.drawn = s.design.First()
	slots := s.design.Drawn(s.drawn)
	every, err := s.estimate(ctx, slots, s.warmup.NS, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.restrict(ctx, every); err != nil || s.only == nil {
		t.Fatalf("later rounds are not for the group (%v)", err)
	}
	only := *s.only
	only.Tolerance = -1 // no link case is left out
	w := s.windowsOf(slots, s.warmup.NS)
	w.Only = &only
	some, err := s.estimateWindows(ctx, slots, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, want := slowdownsOf(t, some), slowdownsOf(t, every)
	maps.DeleteFunc(want, func(_ int64, of row) bool { return of.service != "few" })
	if len(want) < 100 || !maps.Equal(got, want) {
		t.Errorf("%d flows, want the same %d as with all hosts", len(got), len(want))
	}
	cases := func(r *round) int64 {
		replays, err := pipeline.Cases(r.run.Lake, r.run.Plan().Writer(schema.SenderFCTs))
		if err != nil {
			t.Fatal(err)
		}
		return replays.Cases
	}
	if a, b := cases(some), cases(every); a > 8 || b < 50 {
		t.Errorf("%d and %d replays, want those of 8 hosts and of 64", a, b)
	}
}

// What link cases that are left out add to the interval of the asked group is among its parts, if it is anything.
func TestWriteLeftOut(t *testing.T) {
	few := Key{stages.ByService, "few", sizebin.Count}
	row := Row{Key: few, SizeBin: sizebin.All, Quantile: 0.99, Estimate: 2, Lo: 1.9, Hi: 2.1, SamplingLo: 1.95, SamplingHi: 2.05, Sustained: 2}
	for _, c := range []struct {
		left *LeftOut
		want string
	}{{nil, ""}, {&LeftOut{Group: "service few"}, ""}, {&LeftOut{Group: "service few", Bound: 0.0015}, "; link cases left out ±0.15%; flows that outlast"}} {
		r, text := &Result{Result: &summary.Result{}, Stopped: Precise, Rows: []Row{row}, LeftOut: c.left, of: few}, strings.Builder{}
		if err := r.Write(&text); err != nil {
			t.Fatal(err)
		}
		got := text.String()
		if !strings.Contains(got, "Parts of the intervals of service few") || !strings.Contains(got, c.want) ||
			strings.Contains(got, "link cases left out") != (c.want != "") {
			t.Errorf("left out %+v: %s", c.left, got)
		}
	}
}

// row is what an estimate says of a flow.
type row struct {
	service  string
	slowdown float64
}

func slowdownsOf(t *testing.T, r *round) map[int64]row {
	t.Helper()
	in, err := r.run.Read(schema.Slowdowns, []string{"flow_row", "service", "slowdown"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int64]row{}
	err = columns.Consume(in, func(rec arrow.Record) error {
		service, slowdown := columns.Text(rec, "service"), columns.Float64s(rec, "slowdown")
		for i, flow := range columns.Int64s(rec, "flow_row") {
			all[flow] = row{strings.Clone(service.Value(i)), slowdown[i]}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// An answer for a group leaves out link cases, is repeated by another lake, and changes no other answer. A group of all
// hosts leaves out none.
func TestRunOfGroup(t *testing.T) {
	flows, dir := writeGroups(t, 150_000), t.TempDir()
	run := func(dir, by string) *Result {
		e := beginFlow(t, dir, flows)
		defer e.Close()
		r, err := Run(context.Background(), e, Ask{Within: 0.045, Of: []float64{0.9}, Confidence: 0.95, By: by})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	few := run(dir, "service=few")
	if l := few.LeftOut; few.Stopped != Precise || l == nil || l.Group != "service few" || !(l.LinkCasesShare > 0.1) ||
		!(l.LinkCasesShare < 1) || !(l.Bound > 0) || l.Bound > 0.002 {
		t.Fatalf("%s after %d windows, %+v left out %+v", few.Stopped, few.Windows, few.Goals, few.LeftOut)
	}
	for _, x := range few.Rows {
		if x.Key.Label != "few" && x.Key != all {
			continue
		}
		if windows := float64(few.Windows); x.Key == all && float64(x.Sampled) > 0.9*windows/32*float64(x.Flows)*few.SampledShare {
			t.Errorf("%v: %d of %d flows, want those of the first round", x, x.Sampled, x.Flows)
		}
		if !(x.Lo < x.SamplingLo && x.SamplingHi < x.Hi) && x.Lo > 1 {
			t.Errorf("%v: interval %v to %v", x, x.Lo, x.Hi)
		}
	}
	other := t.TempDir()
	of, rest := readRounds(t, dir, few), readRounds(t, dir, run(dir, "service=rest"))
	if len(of) < 2 || len(of[1]) < 12 {
		t.Errorf("%d rounds, %d rows after the first", len(of), len(of[1]))
	}
	for key, x := range of[1] {
		if same := rest[1][key]; x != same {
			t.Errorf("%s: after the first round %v, for another group %v", key, x, same)
		}
	}
	sameRows(t, run(other, "service=rest"), run(dir, "service=rest"))
	sameRows(t, run(other, "service=few"), few)
	if rest := run(other, "service=rest"); rest.LeftOut != nil {
		t.Errorf("a group of all hosts has left out %+v", rest.LeftOut)
	}
}

// Windows for a group that are prepared know from the lake what to leave out.
func TestPreparedGroup(t *testing.T) {
	ctx, flows, dir := context.Background(), writeGroups(t, 150_000), t.TempDir()
	ask := Ask{Within: 0.045, Of: []float64{0.9}, Confidence: 0.95, By: "service=few"}
	for prepared := 0; ; prepared++ {
		base := beginFlow(t, dir, flows)
		ids, err := Prepare(ctx, base, ask)
		base.Close()
		if err != nil || prepared > 20 {
			t.Fatalf("windows are prepared %d times (%v)", prepared, err)
		}
		if len(ids) == 0 {
			break
		}
		for _, id := range ids {
			e, err := pipeline.Resume(ctx, dir, id, base.Variant(), pipeline.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Estimate(ctx); err != nil {
				t.Fatal(err)
			}
			e.Close()
		}
	}
	base := beginFlow(t, dir, flows)
	r, err := Run(ctx, base, ask)
	if err != nil {
		t.Fatal(err)
	}
	if r.LeftOut == nil || !(r.LeftOut.LinkCasesShare > 0.1) {
		t.Errorf("left out %+v", r.LeftOut)
	}
	for _, s := range r.Stages {
		if s.Stage != pipeline.CombineStage("", "").Name && s.Stage != "generate" && s.Reused < s.Tasks {
			t.Errorf("stage %s: %d of %d tasks done again", s.Stage, s.Tasks-s.Reused, s.Tasks)
		}
	}
}

func sameRows(t *testing.T, got, want *Result) {
	t.Helper()
	same := func(a, b Row) bool {
		return a.Key == b.Key && a.Estimate == b.Estimate && a.Lo == b.Lo && a.Hi == b.Hi && a.Sampled == b.Sampled
	}
	if got.Windows != want.Windows || got.Variant != want.Variant || !slices.EqualFunc(got.Rows, want.Rows, same) {
		t.Errorf("%s: %d windows, %v\nwant %s: %d, %v", got.Variant, got.Windows, got.Rows, want.Variant, want.Windows, want.Rows)
	}
}

// The tolerance is a tenth of the asked precision or less, and equal for nearly equal asks.
func TestTolerance(t *testing.T) {
	for within, want := range map[float64]float64{0.02: 0.002, 0.1: 0.002, 0.199: 0.002, 0.2: 0.02, 0.019: 0.0002, 0.001: 0.00002} {
		if got := (Ask{Within: within}).tolerance(); math.Abs(got/want-1) > 1e-9 || got > within/10*(1+1e-9) {
			t.Errorf("within %v: %v, want %v", within, got, want)
		}
	}
}

var (
	groupsLake     = flag.String("groups-lake", "", "measure what it saves and changes to leave out link cases, with the flows of this lake; adds hidden scenarios to it")
	groupsScenario = flag.String("groups-scenario", "", "scenario of the lake")
	groupsNames    = flag.String("groups", "", "groups such as service=storage,vnet=blue")
	groupsRounds   = flag.Int("groups-rounds", 5, "rounds of windows")
	groupsWithin   = flag.Float64("groups-within", 0.02, "asked precision")
)

// TestGroupsOfLake prints the table of link cases that are left out for one group: the same windows are estimated with
// every link case and without those. Packets are counted in each simulation of a link case, replays included.
func TestGroupsOfLake(t *testing.T) {
	if *groupsLake == "" {
		t.Skip("needs a lake with flows: -groups-lake")
	}
	ctx := context.Background()
	base, err := pipeline.Resume(ctx, *groupsLake, *groupsScenario, pipeline.Variant{Estimator: stages.Flow}, pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	var every *groupRounds
	for name := range strings.SplitSeq(*groupsNames, ",") {
		s, err := start(ctx, base, Ask{Within: *groupsWithin, Of: []float64{0.99}, Confidence: 0.95, By: name}, nil)
		if err != nil {
			t.Fatal(err)
		}
		slots := s.roundsOfGroup(ctx, t)
		if every == nil {
			every = s.estimateGroup(ctx, t, slots)
		}
		if err := s.restrict(ctx, s.rounds[0]); err != nil {
			t.Fatal(err)
		}
		k := Key{stages.ByService, strings.TrimPrefix(name, byService+"="), sizebin.Count}
		if vnet, is := strings.CutPrefix(name, byVNet+"="); is {
			k = Key{stages.ByVNet, vnet, sizebin.Count}
		}
		if s.only == nil {
			fmt.Printf("| %s | %d | none | 0%% | 0%% | | | | | %.1f | |\n", name, s.index.totals[k], every.seconds)
			continue
		}
		some := s.estimateGroup(ctx, t, slots)
		var pairs []checkPair
		for i := range slots {
			for _, n := range slots[i] {
				if a, b := some.read[i].found[n][k], every.read[i].found[n][k]; a != nil && b != nil {
					pairs = append(pairs, checkPair{*a, *b})
				}
			}
		}
		l, text := s.leftOut, ""
		for _, m := range methodErrors(pairs, 0.95) {
			text += fmt.Sprintf(" %+.2f%% (%+.2f to %+.2f) |", 100*m.Error, 100*m.ErrorLo, 100*m.ErrorHi)
		}
		text += strings.Repeat(" |", 4-strings.Count(text, "|"))
		fmt.Printf("| %s | %d | %.3f%% | %.0f%% | %.0f%% |%s %.1f | %.1f |\n", name, s.index.totals[k], 100*l.Bound,
			100*l.LinkCasesShare, 100*(1-float64(some.packets)/float64(every.packets)), text, every.seconds, some.seconds)
	}
}

// groupRounds are rounds after the first, estimated in one way.
type groupRounds struct {
	read    []*reading
	packets int64   // simulated
	seconds float64 // of processors
}

// roundsOfGroup estimates the first round and returns the slots of the later ones.
func (s *sampler) roundsOfGroup(ctx context.Context, t *testing.T) (rounds [][]int) {
	t.Helper()
	s.drawn = s.design.First()
	first, err := s.estimate(ctx, s.design.Drawn(s.drawn), s.warmup.NS, nil)
	if err == nil {
		err = s.take(ctx, first)
	}
	if err != nil {
		t.Fatal(err)
	}
	drawn := s.drawn
	for range *groupsRounds - 1 {
		next := s.design.Next(drawn)
		rounds = append(rounds, without(s.design.Drawn(next), s.design.Drawn(drawn)))
		drawn = next
	}
	return rounds
}

// estimateGroup estimates rounds.
func (s *sampler) estimateGroup(ctx context.Context, t *testing.T, rounds [][]int) *groupRounds {
	t.Helper()
	g, packets := &groupRounds{}, s.cases.PacketHops
	for _, slots := range rounds {
		s.stages = nil
		w := s.windowsOf(slots, s.warmup.NS)
		w.Only = s.only
		r, err := s.estimateWindows(ctx, slots, w, nil)
		if err == nil {
			err = s.countLeftOut(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		x, err := s.read(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, report := range s.stages {
			g.seconds += report.CPUSeconds
		}
		g.read = append(g.read, x)
	}
	g.packets = s.cases.PacketHops - packets
	return g
}
