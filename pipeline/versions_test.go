package pipeline

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/daily"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/estimators"
	"parsimon/stages/method"
	"parsimon/stages/methodtest"
	"parsimon/stages/moves"
	"parsimon/stages/step"
)

var updateVersions = flag.Bool("update", false, "rewrite testdata/versions.json, after a version was raised")

// versions is the content of testdata/versions.json: the versions, and digests of rows that were produced
// with them.
type versions struct {
	Method int `json:"method_version"`
	Kernel int `json:"link_kernel_version"`
	// LinkCases are digests of the results of link cases alone, by scenario. Answers are digests of the
	// estimates.
	LinkCases map[string]string `json:"link_cases"`
	Answers   map[string]string `json:"answers"`
}

// If the results of a scenario change and no version is raised, a run in an old lake silently keeps the old
// answer, and the cache serves old results of link cases. This test says which version to raise. The short
// form has a third of the scenarios each day.
func TestVersionsFollowTheRows(t *testing.T) {
	path := filepath.Join("testdata", "versions.json")
	got := versions{MethodVersion, simkernel.Version, map[string]string{}, map[string]string{}}
	all := versionScenarios(t)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if !*updateVersions && daily.Skips(i, 3) {
			continue
		}
		s := all[name]
		rows := methodtest.RandomRows(s.model.Network, rand.New(rand.NewPCG(2, 3)), 400)
		for i := range rows {
			if s.twoServices && i%2 == 1 {
				rows[i].Service = "batch"
			}
		}
		found, err := method.Run(t.Context(), s.model, s.estimate, rows)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got.Answers[name] = digest(t, found, schema.Slowdowns, schema.HopContributions, schema.LinkStats,
			schema.Intervals, schema.Warnings)
		if !s.estimate.Estimator.Estimator().WholeNetwork && s.estimate.Passes != 2 {
			got.LinkCases[name] = digest(t, found, schema.DelayBuckets, schema.HopObservations)
		}
	}
	checkOwnRows(t, got.Answers)
	if *updateVersions {
		writeVersions(t, path, got)
		return
	}
	var want versions
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	const again = "then go test ./pipeline -run TestVersionsFollowTheRows -update"
	added := slices.DeleteFunc(slices.Sorted(maps.Keys(got.Answers)), func(name string) bool {
		_, known := want.Answers[name]
		return known
	})
	if len(added) > 0 {
		t.Errorf("there are no digests of %s yet: raise no version, and run %s", strings.Join(added, "; "),
			strings.TrimPrefix(again, "then "))
	}
	changed := changedKeys(want.LinkCases, got.LinkCases)
	if len(changed) > 0 && want.Kernel == got.Kernel {
		t.Errorf("link cases find other rows (%s): raise Version in simkernel/doc.go, "+
			"or version of the transport that changed, %s",
			strings.Join(changed, ", "), again)
	}
	changed = changedKeys(want.Answers, got.Answers)
	if len(changed) > 0 && want.Method == got.Method {
		t.Errorf("estimates have other rows (%s): raise MethodVersion in pipeline/plan.go, %s",
			strings.Join(changed, ", "), again)
	}
	if want.Method != got.Method || want.Kernel != got.Kernel {
		t.Errorf("a version was raised: %s", strings.TrimPrefix(again, "then "))
	}
}

// checkOwnRows reports scenarios with equal rows. If the buffers or classes of a scenario have no effect, it
// cannot detect a change of the code that it should cover.
func checkOwnRows(t *testing.T, answers map[string]string) {
	t.Helper()
	names := map[string]string{} // by digest
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		other, taken := names[answers[name]]
		if taken {
			t.Errorf("scenarios %q and %q have the same rows: one of them exercises nothing", other, name)
		}
		names[answers[name]] = name
	}
}

// A versionScenario is a small estimate.
type versionScenario struct {
	model       *step.Model
	estimate    method.Estimate
	twoServices bool // every second flow belongs to service "batch", the others to "web"
}

func versionScenarios(t *testing.T) map[string]versionScenario {
	n := methodtest.Clos(t)
	of := func(transport simkernel.Transport, change func(m *step.Model)) *step.Model {
		p := simkernel.ParamsOf(transport)
		m := methodtest.Model(t, n, &p)
		if change != nil {
			change(m)
		}
		return m
	}
	dctcp := of(simkernel.DCTCP, nil)
	limited := of(simkernel.DCTCP, func(m *step.Model) {
		m.Buffers = network.BufferParams{SwitchBytes: 40_000, Alpha: 1}
	})
	lossless := of(simkernel.DCTCP, func(m *step.Model) {
		m.Buffers = network.BufferParams{SwitchBytes: 60_000, Alpha: 1, PFC: true}
	})
	classes := of(simkernel.DCTCP, func(m *step.Model) {
		m.Classes = []step.TrafficClass{
			{Name: "default", Class: network.Class{Weight: 1}},
			{Name: "web", Queue: 1, Services: []string{"web"}, Class: network.Class{Weight: 4}},
		}
	})
	sprayed := of(simkernel.DCTCP, func(m *step.Model) { m.Moves = &moves.Moves{Balance: "spray"} })
	onePass := step.Options{Passes: 1}
	by := func(name estimators.Name) method.Estimate { return method.Estimate{Estimator: name} }
	all := map[string]versionScenario{
		"independent": {dctcp, by(estimators.Independent), false},
		"independent, clustered": {dctcp, method.Estimate{Estimator: estimators.Independent,
			Options: step.Options{ClusterError: 0.1}}, false},
		"flow, one pass":   {dctcp, method.Estimate{Estimator: estimators.Flow, Options: onePass}, false},
		"flow, limited":    {limited, by(estimators.Flow), false},
		"exact, limited":   {limited, by(estimators.Exact), false},
		"exact, PFC":       {lossless, by(estimators.Exact), false},
		"exact, classes":   {classes, by(estimators.Exact), true},
		"exact, one class": {dctcp, by(estimators.Exact), true},
		"exact, sprayed":   {sprayed, by(estimators.Exact), false},
	}
	for _, name := range simkernel.Transports() {
		transport, err := simkernel.ParseTransport(name)
		if err != nil {
			t.Fatal(err)
		}
		m := of(transport, nil)
		if !transport.Traits().AckClocked {
			all["flow, "+name] = versionScenario{m, by(estimators.Flow), false}
			fitted := of(transport, func(m *step.Model) { m.Params.SetWindow(simkernel.AutoWindow) })
			all["flow, fitted windows, "+name] = versionScenario{fitted, by(estimators.Flow), false}
			all["exact, fitted windows, "+name] = versionScenario{fitted, by(estimators.Exact), false}
		}
		all["exact, "+name] = versionScenario{m, by(estimators.Exact), false}
	}
	return all
}

// digest hashes the rows of tables, sorted.
func digest(t *testing.T, found *method.Tables, of ...schema.Table) string {
	t.Helper()
	h := fnv.New64a()
	for _, table := range of {
		rows := found.Table(table)
		if rows != nil {
			for _, row := range textRows(t, rows.Read()) {
				_, _ = fmt.Fprintln(h, row)
			}
		}
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// changedKeys returns the keys of both whose values differ.
func changedKeys(want, got map[string]string) []string {
	var changed []string
	for key := range got {
		digest, known := want[key]
		if known && digest != got[key] {
			changed = append(changed, key)
		}
	}
	slices.Sort(changed)
	return changed
}

func writeVersions(t *testing.T, path string, v versions) {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
