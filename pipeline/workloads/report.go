package workloads

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/schema/units"
	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
	"parsimon/stages"
	"parsimon/stages/ingest"
	"parsimon/stages/rng"
	"parsimon/stages/workload"
)

// Report says what a workload holds after Ingest, and what simulating it would mean.
type Report struct {
	Workload     string `json:"workload"`
	Lake         string `json:"lake"`
	NewFiles     int    `json:"new_files"`
	KnownFiles   int    `json:"known_files"`
	HeldFiles    int    `json:"held_files"`
	DamagedFiles int    `json:"damaged_files"` // their records are read again if they are among the sources
	// Notes are what else to know of the sources and tables. Repeated rows stand in an earlier file, too, and count once.
	Notes    []string `json:"notes,omitempty"`
	Repeated int64    `json:"repeated_rows"`
	// Rows of all sources so far = Flows + Merged + Rejects.
	Rows             int64                `json:"rows"`
	Flows            int64                `json:"flows"`
	Merged           int64                `json:"merged"`
	Rejects          int64                `json:"rejects"`
	SetAside         int64                `json:"set_aside"`
	Reasons          []ingest.RejectCount `json:"reject_reasons"`
	SyntheticStarts  int64                `json:"synthetic_starts"`
	Bytes            int64                `json:"bytes"`
	FirstStartNS     int64                `json:"first_start_ns"`
	LastStartNS      int64                `json:"last_start_ns"`
	Labels           []LabelCount         `json:"labels"` // most bytes first
	Links            []LinkForecast       `json:"links"`
	UnreachableFlows int64                `json:"unreachable_flows"`
	PacketHops       int64                `json:"packet_hops"`
	// PacketHopNS is what one takes on this machine, measured now; SimulateSeconds what all of them
	// will take on Workers.
	PacketHopNS     float64 `json:"packet_hop_ns"`
	SimulateSeconds float64 `json:"simulate_seconds"`
	Workers         int     `json:"workers"`
}

// LabelCount is what flows of one service and virtual network come to.
type LabelCount struct {
	Service string `json:"service"`
	VNet    string `json:"vnet"`
	Flows   int64  `json:"flows"`
	Bytes   int64  `json:"bytes"`
}

// LinkForecast is a link's load before anything is simulated; Load is offered bytes over what the
// link can carry in the time the workload spans.
type LinkForecast struct {
	LinkID       int32   `json:"link_id"`
	Src          int32   `json:"src_node"`
	Dst          int32   `json:"dst_node"`
	SrcName      string  `json:"src_name"`
	DstName      string  `json:"dst_name"`
	Flows        int64   `json:"flows"`
	Bytes        int64   `json:"bytes"`
	Load         float64 `json:"load"`
	BandwidthBps int64   `json:"bandwidth_bps"`
}

// finish makes the report of what the workload holds now.
func (in *ingestion) finish() error {
	r, m := in.report, &in.state.Merge
	r.Workload, r.Lake, r.Workers = string(in.state.ID), in.session.Path(), in.workers
	r.Rows, r.Rejects, r.SetAside, r.Reasons = in.state.counts()
	r.Flows, r.Merged, r.SyntheticStarts = m.Flows, m.Merged, m.SyntheticStarts
	r.FirstStartNS, r.LastStartNS = m.FirstStartNS, m.LastStartNS
	labels := map[labelKey]LabelCount{}
	for _, c := range m.Chunks {
		r.UnreachableFlows += c.UnreachableFlows
		r.PacketHops += c.PacketHops
		for _, l := range c.Labels {
			k := labelKey{l.Service, l.VNet}
			l.Flows, l.Bytes = l.Flows+labels[k].Flows, l.Bytes+labels[k].Bytes
			labels[k] = l
		}
	}
	for _, l := range labels {
		r.Labels = append(r.Labels, l)
		r.Bytes += l.Bytes
	}
	slices.SortFunc(r.Labels, func(a, b LabelCount) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Service, b.Service), cmp.Compare(a.VNet, b.VNet))
	})
	err := in.reportLinks()
	if err != nil {
		return err
	}
	if r.PacketHopNS, err = timeKernel(); err != nil {
		return err
	}
	r.SimulateSeconds = float64(r.PacketHops) * r.PacketHopNS / 1e9 / float64(max(1, r.Workers))
	return nil
}

// reportLinks adds the loads of the links.
func (in *ingestion) reportLinks() error {
	r := in.report
	loads := in.session.Read(schema.LinkLoads, lake.FilesOf(in.state.Merge.Files, schema.LinkLoads), nil, nil)
	all, err := stages.ReadLoads(in.net, loads)
	if err := errors.Join(err, loads.Close()); err != nil {
		return err
	}
	span := float64(r.LastStartNS - r.FirstStartNS)
	names := map[int32]string{}
	for _, n := range in.net.Nodes {
		names[n.ID] = n.Name
	}
	for id, l := range all.Links {
		if l.Flows == 0 {
			continue
		}
		link := in.net.Links[id]
		load := 0.0 // in no time, nothing can be said
		if span > 0 {
			load = float64(l.Bytes) * 8e9 / span / float64(link.BandwidthBps)
		}
		r.Links = append(r.Links, LinkForecast{LinkID: link.ID, Src: link.Src, Dst: link.Dst,
			SrcName: names[link.Src], DstName: names[link.Dst], Flows: l.Flows, Bytes: l.Bytes,
			Load: load, BandwidthBps: link.BandwidthBps})
	}
	slices.SortFunc(r.Links, func(a, b LinkForecast) int {
		return cmp.Or(cmp.Compare(b.Load, a.Load), cmp.Compare(a.LinkID, b.LinkID))
	})
	return nil
}

// timeKernel measures what a packet-hop takes on this machine: a link at half load, 40 sources, for
// about a tenth of a second.
func timeKernel() (ns float64, err error) {
	k, err := linkcase.NewKernel(simkernel.DefaultParams())
	if err != nil {
		return 0, err
	}
	c := linkcase.Case{Kind: linkcase.Behind, TargetBps: 10e9, MarkBytes: 30_000}
	for range 40 {
		c.SourceBps = append(c.SourceBps, 10e9)
		c.SourceDelayNS = append(c.SourceDelayNS, 1000)
	}
	draw := rng.New(1, rng.Bootstrap)
	sizes := workload.NewLogNormal(20_000, 1.5)
	at, hops, params := int64(0), int64(0), simkernel.DefaultParams()
	for i := range 8000 {
		size := max(1, int64(sizes.Draw(&draw)))
		c.Source = append(c.Source, int32(i%40))
		c.SizeBytes = append(c.SizeBytes, size)
		c.StartNS = append(c.StartNS, at)
		c.PathDelayNS = append(c.PathDelayNS, 4000)
		hops += params.Packets(size)
		at += 32_000 // 20 KB every 32 us: 5 Gbps
	}
	var result linkcase.Result
	began, runs := time.Now(), 0
	for time.Since(began) < 100*time.Millisecond {
		if err := k.Simulate(&c, &result); err != nil {
			return 0, err
		}
		runs++
	}
	return float64(time.Since(began).Nanoseconds()) / float64(hops*int64(runs)), nil
}

// hottestShown is how many links the report lists, beside those that would be over 100%.
const hottestShown = 5

// Text is the report for people.
func (r *Report) Text() *text.Answer {
	p := &text.Answer{}
	p.Linef("workload %s: %d new files, %d it held already; lake %s", r.Workload, r.NewFiles, r.KnownFiles, r.Lake)
	for _, note := range r.Notes {
		p.Linef("warning: %s", note)
	}
	if r.Repeated > 0 {
		p.Linef("%d rows stand in an earlier file, too: they count once, as merged", r.Repeated)
	}
	p.Linef("%d rows in = %d flows + %d merged + %d rejected (%d of them say themselves that they are no flows)", r.Rows, r.Flows, r.Merged, r.Rejects, r.SetAside)
	for _, why := range r.Reasons {
		p.Linef("  %d × %s (first: %s)", why.Rows, why.Reason, cut(why.Example, 120))
	}
	r.addUnknown(p)
	p.Linef("from %s to %s: %s, %s bytes", timeOf(r.FirstStartNS), timeOf(r.LastStartNS), time.Duration(r.LastStartNS-r.FirstStartNS).Round(time.Millisecond), units.Human(float64(r.Bytes)))
	if r.SyntheticStarts > 0 {
		p.Linef("%.1f%% of the flows have synthetic starts: the trace says less than when they began", 100*float64(r.SyntheticStarts)/float64(max(1, r.Flows)))
	}
	p.Linef("\n%-24s %-24s %12s %16s %8s", "service", "vnet", "flows", "bytes", "share")
	for i, l := range r.Labels {
		if i == 20 {
			p.Linef("… and %d more", len(r.Labels)-i)
			break
		}
		p.Linef("%-24s %-24s %12d %16d %7.2f%%", cmp.Or(l.Service, "(none)"), cmp.Or(l.VNet, "(none)"), l.Flows, l.Bytes, 100*float64(l.Bytes)/float64(max(1, r.Bytes)))
	}
	over := 0
	for _, l := range r.Links {
		if l.Load > 1 {
			over++
		}
	}
	p.Linef("\nLoad of the links before anything is simulated (%d would be over 100%%)", over)
	p.Linef("%-8s %-44s %10s %16s %9s", "link_id", "link", "flows", "bytes", "load")
	for i, l := range r.Links {
		if i >= hottestShown && l.Load <= 1 || i >= 50 {
			break
		}
		p.Linef("%-8d %-44s %10d %16d %8.2f%%", l.LinkID, l.SrcName+" → "+l.DstName, l.Flows, l.Bytes, 100*l.Load)
	}
	if r.UnreachableFlows > 0 {
		p.Linef("%d flows have no path", r.UnreachableFlows)
	}
	p.Linef("\n%s packet-hops to simulate: about %s of the simulate stage with %d workers, at %.1f ns each as measured now", units.Human(float64(r.PacketHops)), time.Duration(r.SimulateSeconds*1e9).Round(time.Second/10), r.Workers, r.PacketHopNS)
	p.Linef("\nNext:\n  parsimon run --workload %s --lake %s\n  parsimon query --lake %s --sql \"SELECT reason, count(*) FROM workload_rejects GROUP BY reason\"", r.Workload, r.Lake, r.Lake)
	return p
}

// addUnknown lists the addresses that are no hosts, by bytes, with the lines of a hosts table that would find them.
func (r *Report) addUnknown(p *text.Answer) {
	var all []ingest.UnknownAddress
	for _, why := range r.Reasons {
		all = ingest.MergeUnknown(all, why.Unknown)
	}
	if len(all) == 0 {
		return
	}
	const most = 5
	p.Linef("\nAddresses that are no hosts, and the line of the hosts table that would find them (NODE: where they are attached)")
	p.Linef("%-40s %10s %16s  %s", "address", "rows", "bytes", "line")
	for i, u := range all {
		if i == most {
			p.Linef("… and others (--output json lists %d)", len(all))
			break
		}
		p.Linef("%-40s %10d %16d  %s", u.Address, u.Rows, u.Bytes, u.Rule())
	}
	p.Linef("%-40s %10s %16s  %s\n", "every other address", "", "", ingest.CatchAll(all))
}

func cut(s string, n int) string {
	r := []rune(s)
	if len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// timeOf writes a start as a date where it is one, else as ns.
func timeOf(ns int64) string {
	if ns > 1e17 {
		return time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("%d ns", ns)
}
