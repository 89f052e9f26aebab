package pipeline

import (
	"encoding/json"
	"fmt"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

// A Spec is what the lake keeps of a scenario beside its tables, so that every stage can run on what the lake holds.
type Spec struct {
	ScenarioID       lake.ScenarioID  `json:"scenario_id"`
	Name             string           `json:"name"`
	Seed             uint64           `json:"seed"`
	Params           simkernel.Params `json:"params"`
	AllowUnreachable bool             `json:"allow_unreachable"`
	MaxRejects       float64          `json:"max_rejects"`
	MaxLoad          float64          `json:"max_load"` // 0 for traces
	Canonical        json.RawMessage  `json:"canonical"`
	Windows          *WindowsSpec     `json:"windows,omitempty"` // of a scenario of windows of another
	// Aliases are names under which the scenario was asked for later. Name is the first one, as in table scenarios.
	Aliases []string               `json:"aliases,omitempty"`
	Buffer  *scenario.SwitchBuffer `json:"switch_buffer,omitempty"` // as the configurations of the switches state it
	// Switches are the buffers of the scenario's switches; zero: unlimited.
	Switches network.BufferParams  `json:"switches,omitzero"`
	Planned  []format.PlannedCable `json:"planned,omitempty"` // cables that the topology lists and that are not installed
}

// A Model is a scenario of a lake, ready to be estimated.
type Model struct {
	Lake    *lake.Lake
	Spec    Spec
	Network *topology.Network
	Router  *topology.Router
}

// ID is the scenario's id.
func (m *Model) ID() lake.ScenarioID { return m.Spec.ScenarioID }

// base is the place of the tables that do not depend on the variant.
func (m *Model) base() lake.Place { return lake.Of(m.ID()) }

func newModel(l *lake.Lake, spec Spec, n *topology.Network) (*Model, error) {
	router, err := topology.NewRouter(n, spec.Seed)
	if err != nil {
		return nil, err
	}
	return &Model{l, spec, n, router}, nil
}

// OpenModel opens a scenario that the lake holds (see Resolve); the one last worked on if none is named.
func OpenModel(l *lake.Lake, scenario string) (*Model, error) {
	id, err := LastWorkedOn(l)
	if scenario != "" {
		id, err = Resolve(l, scenario)
	}
	if err != nil {
		return nil, err
	}
	spec, err := ReadSpec(l, id)
	if err != nil {
		return nil, err
	}
	n, err := readNetwork(l, id)
	if err != nil {
		return nil, err
	}
	return newModel(l, spec, n)
}

// ReadSpec reads the spec of a scenario, and checks its constants, since nothing that a lake contains is trusted. A
// spec of another scenario, and none, are errors.
func ReadSpec(l *lake.Lake, id lake.ScenarioID) (spec Spec, err error) {
	path := lake.Of(id).SpecPath()
	found, err := l.ReadState(path, &spec)
	switch {
	case err != nil:
		return spec, err
	case !found:
		return spec, fmt.Errorf("%s holds no scenario %s", l.Path(), id)
	case spec.ScenarioID != id:
		return spec, fmt.Errorf("%s/%s is the spec of scenario %q, not of %s", l.Path(), path, spec.ScenarioID, id)
	}
	err = spec.Params.Validate()
	if err == nil && !spec.Switches.IsZero() {
		err = spec.Switches.Validate(&spec.Params)
	}
	return spec, err
}

// readNetwork rebuilds a scenario's topology from tables nodes and links.
func readNetwork(l *lake.Lake, id lake.ScenarioID) (*topology.Network, error) {
	r, err := engine.Complete(l, generated(l, id), methodVersion)
	if err != nil {
		return nil, err
	}
	nodes := l.Read(schema.Nodes, r.Files(schema.Nodes), nil, nil)
	defer func() { _ = nodes.Close() }() // read to its end, or an error is reported
	links := l.Read(schema.Links, r.Files(schema.Links), nil, nil)
	defer func() { _ = links.Close() }() // likewise
	n, err := topology.FromTables(nodes, links)
	if err != nil {
		return nil, fmt.Errorf("topology of scenario %s: %w", id, err)
	}
	return n, nil
}
