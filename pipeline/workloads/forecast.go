package workloads

import (
	"context"
	"errors"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// routeChunks routes the flows of data files on their paths, and writes what crosses each link. A flow without a
// path counts as unreachable; whether that is an error is for the run to say.
func (in *ingestion) routeChunks(ctx context.Context, m *Merged, files []lake.DataFile) ([]lake.DataFile, error) {
	router, err := topology.NewRouter(in.net, in.Seed)
	if err != nil {
		return nil, err
	}
	params := simkernel.DefaultParams()
	m.Chunks = make([]Chunk, len(files))
	loads := make([]lake.DataFile, len(files))
	return loads, engine.Parallel(ctx, in.Workers, len(files), func() (func(context.Context, int) error, error) {
		return func(ctx context.Context, i int) error {
			w, err := in.session.Create(schema.LinkLoads, in.place().File(schema.LinkLoads, m.Next+i))
			if err != nil {
				return err
			}
			defer w.Abandon()
			rows := &counting{Batches: in.session.Read(schema.Flows, files[i:i+1], nil, nil)}
			stats, err := stages.Route(ctx, router, &params, rows, int32(i), 0, nil, w,
				stages.RouteOptions{AllowUnreachable: true, LoadsOnly: true})
			if err := errors.Join(err, rows.Close()); err != nil {
				return err
			}
			rows.chunk.UnreachableFlows, rows.chunk.PacketHops = stats.Unreachable, stats.PacketHops
			m.Chunks[i] = rows.chunk
			loads[i], err = w.Commit()
			return err
		}, nil
	})
}

// A counting is the flows of a data file, and what a Chunk says of those that were read.
type counting struct {
	schema.Batches
	chunk Chunk
	any   bool
}

// Next counts a batch.
func (c *counting) Next() (arrow.Record, error) {
	rec, err := c.Batches.Next()
	if err != nil {
		return nil, err
	}
	var v workload.RowView
	columns.ViewOf(rec, &v)
	if !c.any {
		c.chunk.FirstStartNS, c.any = v.StartNS[0], true
	}
	c.chunk.LastStartNS = v.StartNS[len(v.StartNS)-1]
	for i := range v.StartNS {
		if v.Synthetic.Value(i) {
			c.chunk.SyntheticStarts++
		}
	}
	return rec, nil
}

// tables adds what else is known of the workload: its source files and the topology.
func (in *ingestion) tables(m *Merged) error {
	add := func(t schema.Table, record func() arrow.Record) error {
		rec := record()
		defer rec.Release()
		p, err := in.session.WriteFile(t, in.place().File(t, m.Next), rec)
		m.Files = append(m.Files, p)
		return err
	}
	return errors.Join(add(schema.Workloads, in.sourcesRecord), add(schema.Nodes, in.net.NodesRecord),
		add(schema.Links, in.net.LinksRecord))
}

func (in *ingestion) sourcesRecord() arrow.Record {
	rows := columns.NewRows(schema.Workloads)
	for _, s := range in.state.Sources {
		rows.Add(columns.Row{
			"source": s.N, "file": s.File, "digest": s.Digest,
			"rows": s.Rows, "records": s.Records, "rejects": s.Rejects, "set_aside": s.SetAside,
		})
	}
	return rows.Record()
}
