package workloads

import (
	"context"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages"
	"parsimon/stages/topology"
)

type labelKey struct{ service, vnet string }

// A forecast adds up what one worker has routed.
type forecast struct {
	links       []stages.LinkLoad
	labels      map[labelKey]*LabelCount
	unreachable int64
	packetHops  int64
}

// forecastFlows routes all flows of the workload on their paths, and adds up what crosses each link.
func (in *ingestion) forecastFlows(ctx context.Context) (*forecast, error) {
	if in.forecast != nil {
		return in.forecast, nil
	}
	router, err := topology.NewRouter(in.net, in.trace.Seed)
	if err != nil {
		return nil, err
	}
	params := simkernel.DefaultParams()
	files := lake.FilesOf(in.state.Merge.Files, schema.Flows)
	all := in.newForecast()
	var mu sync.Mutex
	err = engine.Parallel(ctx, in.workers, len(files), func() (func(context.Context, int) error, error) {
		return func(_ context.Context, i int) error {
			f := in.newForecast()
			if err := in.forecastFile(router, &params, files[i], f); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(f)
			return nil
		}, nil
	})
	if err != nil {
		return nil, err
	}
	in.forecast = all
	return all, nil
}

func (in *ingestion) newForecast() *forecast {
	return &forecast{links: make([]stages.LinkLoad, len(in.net.Links)), labels: map[labelKey]*LabelCount{}}
}

func (f *forecast) add(g *forecast) {
	f.unreachable += g.unreachable
	f.packetHops += g.packetHops
	for id, x := range g.links {
		f.links[id] = addLoads(f.links[id], x)
	}
	for k, x := range g.labels {
		l := f.label(k)
		l.Flows += x.Flows
		l.Bytes += x.Bytes
	}
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
	return columns.Consume(rows, func(rec arrow.Record) error {
		ids, src, dst := columns.Int64s(rec, "flow_id"), columns.Int32s(rec, "src"), columns.Int32s(rec, "dst")
		size, start := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
		service, vnet := columns.Text(rec, "service"), columns.Text(rec, "vnet")
		for i, id := range ids {
			l := f.label(labelKey{service.Value(i), vnet.Value(i)})
			l.Flows++
			l.Bytes += size[i]
			var err error
			if path, err = router.Path(id, src[i], dst[i], path[:0]); err != nil {
				f.unreachable++
				continue
			}
			packets := params.Packets(size[i])
			f.packetHops += packets * int64(len(path))
			for _, link := range path {
				f.links[link] = addLoads(f.links[link],
					stages.LinkLoad{Flows: 1, Bytes: size[i], Packets: packets, FirstStartNS: start[i], LastStartNS: start[i]})
			}
		}
		return nil
	})
}

// tables writes what else is known of the workload: topology, source files, what every link will
// carry.
func (in *ingestion) tables(ctx context.Context) error {
	f, err := in.forecastFlows(ctx)
	if err != nil {
		return err
	}
	nodes, links := in.net.NodesRecord(), in.net.LinksRecord()
	defer nodes.Release()
	defer links.Release()
	loads := in.loadsRecord(f)
	defer loads.Release()
	sources := in.sourcesRecord()
	defer sources.Release()
	for _, t := range []struct {
		table schema.Table
		rec   arrow.Record
	}{{schema.Nodes, nodes}, {schema.Links, links}, {schema.LinkLoads, loads}, {schema.Workloads, sources}} {
		p, err := in.session.WriteFile(t.table, in.place().File(t.table, in.state.Merge.Next), t.rec)
		if err != nil {
			return err
		}
		in.state.Merge.Files = append(in.state.Merge.Files, p)
	}
	return nil
}

func (in *ingestion) loadsRecord(f *forecast) arrow.Record {
	rows := columns.NewRows(schema.LinkLoads)
	for id, l := range f.links {
		if l.Flows > 0 {
			rows.Add(columns.Row{
				"link_id": int32(id), "chunk": int32(0), "flows": l.Flows, "bytes": l.Bytes, "packets": l.Packets,
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
