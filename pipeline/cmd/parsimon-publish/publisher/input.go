package publisher

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/schema"
)

// An Input describes the input of a published scenario: the data that Pull needs besides the files of the
// tables. It is an object of the store:
//
//	ROOT/_parsimon/scenario=ID.json
type Input struct {
	SchemaVersion int             `json:"schema_version"`
	Scenario      lake.ScenarioID `json:"scenario"`
	Name          string          `json:"name"`
	// Files are those of the stage that writes the scenario's input.
	Files []lake.DataFile `json:"files"`
	// State has the content of the scenario's state files, by their paths below the scenario's.
	State map[string]json.RawMessage `json:"state"`
}

// generateStage is the stage that writes the topology and the flows of a scenario.
const generateStage = "generate"

func (p *Publisher) inputPath(id lake.ScenarioID) string {
	return p.Store.Root + "/_parsimon/scenario=" + string(id) + ".json"
}

// writeInputs writes the Input of each scenario, if the flows are published and the Input has changed.
func (p *Publisher) writeInputs(ctx context.Context, ids []lake.ScenarioID) error {
	if !p.has(schema.Flows) {
		return nil
	}
	for _, id := range ids {
		in, err := p.input(id)
		if err != nil {
			return fmt.Errorf("scenario %s: %w", id, err)
		}
		content, err := json.MarshalIndent(in, "", " ")
		if err != nil {
			return err
		}
		old, err := p.Store.Read(p.inputPath(id))
		if err == nil && bytes.Equal(old, content) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err = p.Store.Put(ctx, p.inputPath(id), func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// has reports whether a table is published.
func (p *Publisher) has(t schema.Table) bool {
	for _, one := range p.Tables {
		if one.Table.Name == t.Name {
			return true
		}
	}
	return false
}

// input describes the input of a scenario.
func (p *Publisher) input(id lake.ScenarioID) (in Input, err error) {
	spec, err := pipeline.ReadSpec(p.Lake, id)
	if err != nil {
		return in, err
	}
	in = Input{SchemaVersion: schema.Version, Scenario: id, Name: spec.Name, State: map[string]json.RawMessage{}}
	at := lake.Of(id)
	m, _, err := p.Lake.ReadManifest(at)
	if err != nil {
		return in, err
	}
	for _, f := range m.Files {
		t, err := f.Table()
		if err != nil {
			return in, err
		}
		if p.has(t) && inputTables[t.Name] {
			in.Files = append(in.Files, f)
		}
	}
	names, err := p.Lake.StateFiles(at.StatePath(generateStage))
	if err != nil {
		return in, err
	}
	paths := []string{path.Base(at.SpecPath())}
	for name := range names {
		paths = append(paths, generateStage+"/"+name)
	}
	for _, name := range paths {
		var state json.RawMessage
		found, err := p.Lake.ReadState(at.StatePath(strings.Split(name, "/")...), &state)
		if err != nil {
			return in, err
		}
		if found {
			in.State[name] = state
		}
	}
	return in, nil
}

// inputTables are the tables that stage generate writes.
var inputTables = map[string]bool{
	schema.Scenarios.Name: true, schema.Nodes.Name: true, schema.Links.Name: true, schema.Flows.Name: true,
	schema.Dependencies.Name: true, schema.JobFlows.Name: true, schema.Rejects.Name: true,
}

// removeInputs removes the Input of each scenario that the lake does not have.
func (p *Publisher) removeInputs(known map[string]bool) error {
	dir := p.Store.Root + "/_parsimon"
	var old []string
	err := p.Store.List(dir, func(file string) error {
		id, found := strings.CutPrefix(strings.TrimSuffix(path.Base(file), ".json"), "scenario=")
		if found && !known[id] {
			old = append(old, dir+"/"+path.Base(file))
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, file := range old {
		err = errors.Join(err, p.Store.Remove(file))
	}
	return err
}
