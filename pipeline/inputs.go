package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/queries"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/route"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

// Inputs are all inputs of a scenario, resolved. They come from outside of the lake and are not trusted.
type Inputs struct {
	Spec     Spec
	Merged   int64 // as in Generated
	SetAside int64 // as in Generated
	Stats    GenerateStats
	// Read streams one of InputTables.
	Read func(t schema.Table) schema.Batches
}

// InputTables are the tables that every estimate of a scenario starts from.
var InputTables = []schema.Table{
	schema.Nodes, schema.Links, schema.Flows, schema.Dependencies, schema.JobFlows, schema.Rejects,
}

// BeginInputs opens a scenario with the given inputs for a new estimate, in the lake in directory dir. If the
// lake has the scenario, its inputs are not changed. The inputs are checked before the lake is touched: the
// id must be that of the canonical scenario, the tables must describe a network, and the flows must join its
// hosts and be in start order.
func BeginInputs(ctx context.Context, dir string, in Inputs, v Variant, o Settings) (*Estimation, error) {
	if err := queries.CheckLakePath(dir); err != nil {
		return nil, err
	}
	if err := in.checkSpec(); err != nil {
		return nil, err
	}
	network, err := format.FromTables(in.Read(schema.Nodes), in.Read(schema.Links))
	if err != nil {
		return nil, err
	}
	counted, err := in.count(ctx, network)
	if err != nil {
		return nil, err
	}
	in.Spec.Named = map[string]time.Time{in.Spec.Name: time.Now()}
	model, err := newModel(ctx, nil, in.Spec, network)
	if err != nil {
		return nil, err
	}
	model.waits = counted.Closed()
	return model.beginIn(ctx, dir, v, o, func(*Estimation) *source { return in.source(counted) })
}

// checkSpec checks the spec, makes its canonical form compact, and sets what this form determines.
func (in *Inputs) checkSpec() error {
	spec := &in.Spec
	if spec.Windows != nil {
		return errors.New("the scenario consists of windows of another one")
	}
	var canonical bytes.Buffer
	if err := json.Compact(&canonical, spec.Canonical); err != nil {
		return fmt.Errorf("canonical scenario: %w", err)
	}
	spec.Canonical = canonical.Bytes()
	id := scenario.IDOf(spec.Canonical)
	if id != string(spec.ScenarioID) {
		return fmt.Errorf("the scenario has id %q, but its content has id %s", spec.ScenarioID, id)
	}
	if err := spec.checkConstants(); err != nil {
		return err
	}
	properties, err := scenario.PropertiesOf(spec.Canonical)
	if err != nil {
		return err
	}
	spec.MaxLoad = properties.MaxLoad
	spec.FoundStarts = properties.FoundStarts
	return spec.CheckForm(spec.Seed)
}

// An inputFlow has the columns of a flow that are checked.
type inputFlow struct {
	ID        int64 `col:"flow_id"`
	Src       int32 `col:"src"`
	Dst       int32 `col:"dst"`
	SizeBytes int64 `col:"size_bytes"`
	StartNS   int64 `col:"start_ns"`
}

// countedInputs are inputs whose rows were counted.
type countedInputs struct {
	Generated
	jobFlows int64
}

// A countedTable is a table with the number of its rows.
type countedTable struct {
	table schema.Table
	rows  *int64
}

// others returns the input tables other than those of the network and table flows.
func (c *countedInputs) others() []countedTable {
	return []countedTable{
		{schema.Dependencies, &c.Dependencies}, {schema.JobFlows, &c.jobFlows}, {schema.Rejects, &c.Rejects},
	}
}

// count checks the flows, and counts the rows of the tables.
func (in *Inputs) count(ctx context.Context, n *topology.Network) (*countedInputs, error) {
	g := &countedInputs{Generated: Generated{Merged: in.Merged, SetAside: in.SetAside, GenerateStats: in.Stats}}
	last := inputFlow{StartNS: -1}
	err := columns.Each(in.Read(schema.Flows), func(f *inputFlow) error {
		g.Flows++
		if route.ComputeStep(f.Src, f.Dst, f.SizeBytes) {
			g.ComputeSteps++
		}
		for _, host := range []int32{f.Src, f.Dst} {
			if v, ok := n.Node(host); !ok || v.Kind != topology.KindHost {
				return fmt.Errorf("flow %d: node %d is not a host", f.ID, host)
			}
		}
		if f.StartNS < last.StartNS {
			return fmt.Errorf("flow %d starts at %d ns, and the flow before it at %d ns", f.ID, f.StartNS,
				last.StartNS)
		}
		last = *f
		return ctx.Err()
	})
	for _, t := range g.others() {
		if err == nil {
			*t.rows, err = countRows(ctx, in.Read(t.table))
		}
	}
	if err != nil {
		return nil, err
	}
	return g, g.checkClaims()
}

// checkClaims checks the numbers that no table of the inputs has.
func (c *countedInputs) checkClaims() error {
	if c.SetAside < 0 || c.SetAside > c.Rejects {
		return fmt.Errorf("%d rows are set aside, but %d are rejected", c.SetAside, c.Rejects)
	}
	if c.Merged < 0 || c.ExpectedMaxLoad < 0 {
		return fmt.Errorf("%d rows were merged, and the expected load is %v: none can be negative", c.Merged,
			c.ExpectedMaxLoad)
	}
	reasons := int64(0)
	for _, why := range c.RejectReasons {
		if why.Rows < 0 || why.Rows > c.Rejects-reasons {
			return fmt.Errorf("%q is the reason of %d rows, but %d are rejected in all", why.Reason, why.Rows,
				c.Rejects)
		}
		reasons += why.Rows
	}
	return nil
}

// countRows counts the rows of a stream, decodes all of their values, and closes the stream.
func countRows(ctx context.Context, in schema.Batches) (rows int64, err error) {
	err = columns.ForEach(in, func(rec arrow.Record) error {
		rows += rec.NumRows()
		return ctx.Err()
	})
	return rows, err
}

// source returns the source of the given flows, which were counted.
func (in *Inputs) source(counted *countedInputs) *source {
	s := &source{}
	s.write = func(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*Generated, error) {
		err := copyBatches(ctx, in.Read(schema.Flows), out)
		for _, of := range counted.others() {
			if err == nil && *of.rows > 0 {
				err = copyBatches(ctx, in.Read(of.table), t.Sink(of.table))
			}
		}
		return &counted.Generated, err
	}
	return s
}
