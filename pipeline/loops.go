package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
)

// dependencies sets what the simulation of a workload whose flows wait for others needs.
func (m *method) dependencies(t *engine.Attempt, o *stages.ExactOptions) error {
	r, err := engine.Complete(m.Lake, m.generate, methodVersion)
	if err != nil {
		return err
	}
	g, err := readGenerated(m.Lake, r)
	if err != nil || !g.Closed() {
		return err
	}
	o.Flows = g.Flows
	o.Dependencies = func() schema.Batches {
		return t.Read(m.generate.Output(schema.Dependencies), []string{"flow_row", "after_row", "delay_ns"}, nil)
	}
	return nil
}

// setClosedSpan sets the time of a workload whose flows wait for others: what links are offered depends on what the
// network delivers, and flows start until the last one ends.
func (m *method) setClosedSpan(in *engine.Inputs, slowdowns engine.Output, loads *stages.Loads) error {
	g, err := readGenerated(m.Lake, in.Records(m.generate))
	if err != nil || !g.Closed() {
		return err
	}
	return columns.Consume(in.Read(slowdowns, []string{"start_ns", "fct_ns"}, nil), func(rec arrow.Record) error {
		fct := columns.Int64s(rec, "fct_ns")
		for i, start := range columns.Int64s(rec, "start_ns") {
			loads.LastStartNS = max(loads.LastStartNS, start+fct[i])
		}
		return nil
	})
}

// foundStarts are the flows of a base scenario as an open loop: they start when the simulation of its whole network
// found that they do. Compute steps, which have no hops, are no flows then.
type foundStarts struct {
	*Model
	base, exact *engine.Stage // stages generate and exact of the base
}

func newFoundStarts(m *Model, base lake.ScenarioID) *foundStarts {
	of := newMethod(&Model{Lake: m.Lake, Spec: Spec{ScenarioID: base}}, Variant{}, Settings{}, nil)
	return &foundStarts{m, of.generate, of.exactStage()}
}

func (s *foundStarts) reads() []engine.Output {
	return []engine.Output{s.base.Output(schema.Flows), s.exact.Output(schema.ExactFCTs)}
}

func (s *foundStarts) flows(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*Generated, error) {
	var scans [2]string
	for i, of := range s.reads() {
		r, err := engine.Complete(s.Lake, of.Stage, methodVersion)
		if err != nil {
			return nil, err
		}
		scans[i] = ScanFiles(s.Lake, r.Files(of.Table))
	}
	dir := t.Session().TmpPath()
	db, err := duckdb.Open(ctx, duckdb.Options{MemoryBytes: DefaultMemory / 4, SpillDir: filepath.Join(dir, "duckdb")})
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	file := filepath.Join(dir, "starts.parquet")
	_, err = db.ExecContext(ctx, fmt.Sprintf(`COPY (SELECT f.* REPLACE (x.start_ns AS start_ns)
		FROM %s f JOIN %s x ON f.flow_id = x.flow_id WHERE x.hops > 0 ORDER BY x.start_ns, x.flow_id) TO %s (FORMAT parquet)`,
		scans[0], scans[1], duckdb.Quote(file)))
	if err != nil {
		return nil, duckdb.FirstLine(err)
	}
	stats := &Generated{FirstStartNS: -1}
	err = columns.Consume(parquet.OpenForeign(schema.Flows, file), func(rec arrow.Record) error {
		starts := columns.Int64s(rec, "start_ns")
		stats.add(rec.NumRows(), starts[0], starts[len(starts)-1])
		return out.Write(rec)
	})
	return stats, errors.Join(err, os.Remove(file))
}
