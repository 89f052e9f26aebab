package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/scenario"
	"parsimon/schema/daily"
	"parsimon/stages/estimators"
)

// everySetting has switches, classes, jobs, paths and an event.
const everySetting = `topology:
  clos: {pods: 2, racks_per_pod: 2, hosts_per_rack: 2, planes: 2, spines_per_plane: 1,
    host_bandwidth: 10Gbps, host_delay: 500ns, fabric_bandwidth: 40Gbps, fabric_delay: 500ns}
workload:
  max_load: 30%
  flows_count: 40
  services: [{name: web, sizes: webserver}]
  jobs:
    - {name: a, ranks: 4, hosts: racks, iterations: 1,
       steps: [{compute: 10us}, {collective: all-reduce, size: 10KB}]}
transport: {kind: dcqcn}
switches:
  {buffer: 4MB, pfc: true, classes: [{name: web, queue: 3, services: [web], weight: 3},
    {name: rest, queue: 0, weight: 1}]}
balance: {tor: flowlet}
events: ["pod0-fabric0:plane0-spine0 loss 1e-3"]
`

// everything returns the bundle of an estimate of everySetting.
func everything(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "every.yaml")
	fixture.WriteFile(t, path, everySetting)
	s, err := scenario.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	exact := pipeline.Variant{Estimator: estimators.Exact}
	e := estimates.Of(t, filepath.Join(dir, "lake"), s, exact, pipeline.Settings{})
	file := filepath.Join(dir, "bundle")
	if err := os.WriteFile(file, written(t, e), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// No value in the spec of a bundle makes a repetition panic. The bundle is refused or estimated. An attacker
// may write any constants of switches, classes, transports and paths.
func TestNoValueOfASpecPanics(t *testing.T) {
	b := opened(t, everything(t))
	c, err := b.Compare(t.Context(), repeated(t, b, t.TempDir(), pipeline.Settings{}))
	if err != nil || !c.Equal {
		t.Fatalf("%v, %+v", err, c)
	}
	at := slices.IndexFunc(c.Tables, func(t TableComparison) bool { return t.Table == "job_flows" })
	if at < 0 || c.Tables[at].Rows == 0 {
		t.Errorf("no rows of job_flows: %+v", c.Tables)
	}
	text, err := json.Marshal(b.Scenario)
	if err != nil {
		t.Fatal(err)
	}
	values := []string{"-1"}
	if !testing.Short() {
		values = append(values, daily.Today(2, "1e18", "null")...)
	}
	var same pipeline.Spec // its canonical form is compact
	if err := json.Unmarshal(text, &same); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, leaf := range leaves(t, text) {
		for _, value := range values {
			changed := slices.Concat(text[:leaf.from], []byte(value), text[leaf.to:])
			var spec pipeline.Spec
			if json.Unmarshal(changed, &spec) != nil || bytes.Equal(changed, text) {
				continue
			}
			if !bytes.Equal(spec.Canonical, same.Canonical) {
				continue // its id is wrong
			}
			tried++
			hostile := *b
			hostile.Scenario = spec
			if err := try(t, &hostile); errors.As(err, new(*engine.PanicError)) {
				t.Errorf("%s: %v", changed[max(0, leaf.from-40):min(len(changed), leaf.from+40)], err)
			}
		}
	}
	if tried < 40 {
		t.Errorf("only %d values were tried", tried)
	}
}

// try repeats a bundle, which may fail, and returns the error.
func try(t *testing.T, b *Bundle) error {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	e, err := b.Begin(ctx, t.TempDir(), pipeline.Settings{})
	if err == nil {
		err = e.Estimate(ctx)
		e.Close()
	}
	return err
}

// A leaf is the place of a value in JSON.
type leaf struct{ from, to int }

// leaves returns the places of all values in JSON that have no parts.
func leaves(t *testing.T, text []byte) (all []leaf) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	inObject := []bool{}
	key := false
	for dec.More() || len(inObject) > 0 {
		token, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		last := len(inObject) - 1
		switch token {
		case json.Delim('{'), json.Delim('['):
			inObject = append(inObject, token == json.Delim('{'))
			key = token == json.Delim('{')
			continue
		case json.Delim('}'), json.Delim(']'):
			inObject = inObject[:last]
			last--
			key = last >= 0 && inObject[last]
			continue
		}
		if key {
			key = false
			continue
		}
		to := int(dec.InputOffset())
		encoded, err := json.Marshal(token)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, leaf{to - len(encoded), to})
		key = inObject[last]
	}
	return all
}
