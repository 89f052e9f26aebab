package workloads

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages"
	"parsimon/stages/topology"
)

type labelKey struct{ service, vnet string }

// A forecast adds up what one worker has routed: a Chunk with its link loads.
type forecast struct {
	Chunk
	links  []stages.LinkLoad
	labels map[labelKey]*LabelCount
}

// routeChunks routes the flows of new data files on their paths, and writes what crosses each link.
func (in *ingestion) routeChunks(ctx context.Context, m *Merged, files []lake.DataFile) ([]lake.DataFile, error) {
	router, err := topology.NewRouter(in.net, in.trace.Seed)
	if err != nil {
		return nil, err
	}
	params := simkernel.DefaultParams()
	first := len(m.Chunks)
	m.Chunks = append(m.Chunks, make([]Chunk, len(files))...)
	loads := make([]lake.DataFile, len(files))
	return loads, engine.Parallel(ctx, in.workers, len(files), func() (func(context.Context, int) error, error) {
		return func(_ context.Context, i int) error {
			f := &forecast{links: make([]stages.LinkLoad, len(in.net.Links)), labels: map[labelKey]*LabelCount{}}
			if err := in.forecastFile(router, &params, files[i], f); err != nil {
				return err
			}
			f.sortLabels()
			m.Chunks[first+i] = f.Chunk
			rec := loadsRecord(f, first+i)
			defer rec.Release()
			loads[i], err = in.session.WriteFile(schema.LinkLoads, in.place().File(schema.LinkLoads, m.Next+i), rec)
			return err
		}, nil
	})
}

func (f *forecast) label(k labelKey) *LabelCount {
	l, ok := f.labels[k]
	if !ok {
		k = labelKey{strings.Clone(k.service), strings.Clone(k.vnet)} // a record's memory is used again
		l = &LabelCount{Service: k.service, VNet: k.vnet}
		f.labels[k] = l
	}
	return l
}

// sortLabels puts the counts of labels into the chunk.
func (f *forecast) sortLabels() {
	for _, l := range f.labels {
		f.Labels = append(f.Labels, *l)
	}
	slices.SortFunc(f.Labels, func(a, b LabelCount) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.VNet, b.VNet))
	})
}

// addLoads is the load of two sets of flows together; one without flows has no start times.
func addLoads(a, b stages.LinkLoad) stages.LinkLoad {
	switch {
	case a.Flows == 0:
		return b
	case b.Flows == 0:
		return a
	}
	return stages.LinkLoad{
		Flows: a.Flows + b.Flows, Bytes: a.Bytes + b.Bytes, Packets: a.Packets + b.Packets,
		FirstStartNS: min(a.FirstStartNS, b.FirstStartNS), LastStartNS: max(a.LastStartNS, b.LastStartNS),
	}
}

// forecastFile routes the flows of one data file as stage route will, and adds them to the counts of labels and links.
// A flow without a path counts as unreachable; whether that is an error is for the run to say.
func (in *ingestion) forecastFile(router *topology.Router, params *simkernel.Params, d lake.DataFile,
	f *forecast) error {
	rows := in.session.Read(schema.Flows, []lake.DataFile{d}, nil, nil)
	var path []int32
	f.FirstStartNS = math.MaxInt64
	return columns.Consume(rows, func(rec arrow.Record) error {
		ids, src, dst := columns.Int64s(rec, "flow_id"), columns.Int32s(rec, "src"), columns.Int32s(rec, "dst")
		size, start := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
		service, vnet := columns.Text(rec, "service"), columns.Text(rec, "vnet")
		synthetic := columns.Named(rec, "synthetic_start").(*array.Boolean)
		for i, id := range ids {
			f.FirstStartNS, f.LastStartNS = min(f.FirstStartNS, start[i]), start[i]
			if synthetic.Value(i) {
				f.SyntheticStarts++
			}
			l := f.label(labelKey{service.Value(i), vnet.Value(i)})
			l.Flows++
			l.Bytes += size[i]
			var err error
			if path, err = router.Path(id, src[i], dst[i], path[:0]); err != nil {
				f.UnreachableFlows++
				continue
			}
			packets := params.Packets(size[i])
			f.PacketHops += packets * int64(len(path))
			for _, link := range path {
				f.links[link] = addLoads(f.links[link],
					stages.LinkLoad{Flows: 1, Bytes: size[i], Packets: packets, FirstStartNS: start[i], LastStartNS: start[i]})
			}
		}
		return nil
	})
}

// tables adds what else is known of the workload: its source files and the topology, which is that of the merge before.
func (in *ingestion) tables(m, before *Merged) error {
	add := func(t schema.Table, record func() arrow.Record) error {
		rec := record()
		defer rec.Release()
		p, err := in.session.WriteFile(t, in.place().File(t, m.Next), rec)
		m.Files = append(m.Files, p)
		return err
	}
	if err := add(schema.Workloads, in.sourcesRecord); err != nil {
		return err
	}
	topology := append(lake.FilesOf(before.Files, schema.Nodes), lake.FilesOf(before.Files, schema.Links)...)
	if len(topology) > 0 {
		m.Files = append(m.Files, topology...)
		return nil
	}
	return errors.Join(add(schema.Nodes, in.net.NodesRecord), add(schema.Links, in.net.LinksRecord))
}

func loadsRecord(f *forecast, chunk int) arrow.Record {
	rows := columns.NewRows(schema.LinkLoads)
	for id, l := range f.links {
		if l.Flows > 0 {
			rows.Add(columns.Row{
				"link_id": int32(id), "chunk": int32(chunk), "flows": l.Flows, "bytes": l.Bytes, "packets": l.Packets,
				"first_start_ns": l.FirstStartNS, "last_start_ns": l.LastStartNS,
			})
		}
	}
	return rows.Record()
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
