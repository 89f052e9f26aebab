package workloads

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/schema/units"
	"parsimon/simkernel"
	"parsimon/stages/ingest"
	"parsimon/stages/route"
	"parsimon/stages/topology"
)

// Report describes the content of a workload after Ingest, and the expected cost of simulating it.
type Report struct {
	Workload string `json:"workload"`
	Lake     string `json:"lake"`
	// Shard is the shard, I/N, that was read; empty: the workload is complete.
	Shard    string `json:"shard,omitempty"`
	NewFiles int    `json:"new_files"`
	// TakenFiles are the new files that a shard, or an ingest that was killed, had read before.
	TakenFiles   int `json:"taken_files,omitempty"`
	KnownFiles   int `json:"known_files"`
	HeldFiles    int `json:"held_files"`
	DamagedFiles int `json:"damaged_files"` // their records are read again if they are among the sources
	// Skipped lists files that were skipped because they cannot be read.
	Skipped []SkippedFile `json:"skipped_files,omitempty"`
	// Notes are remarks about the sources and tables. Repeated counts rows that are also in an earlier file,
	// which count once.
	Notes    []string `json:"notes,omitempty"`
	Repeated int64    `json:"repeated_rows"`
	// Rows of all sources so far, and rows with bytes in both directions: Rows + Reverse = Flows + Merged +
	// Rejects.
	Rows             int64                `json:"rows"`
	Reverse          int64                `json:"second_directions"`
	Flows            int64                `json:"flows"`
	Merged           int64                `json:"merged"`
	Rejects          int64                `json:"rejects"`
	SetAside         int64                `json:"set_aside"`
	Reasons          []ingest.RejectCount `json:"reject_reasons"`
	SyntheticStarts  int64                `json:"synthetic_starts"`
	Bytes            int64                `json:"bytes"`
	FirstStartNS     int64                `json:"first_start_ns"`
	LastStartNS      int64                `json:"last_start_ns"`
	LastEndNS        int64                `json:"last_end_ns,omitempty"` // of connections with bytes over time
	Labels           []ingest.LabelCount  `json:"labels"`                // in descending order of bytes
	Links            []LinkForecast       `json:"links"`
	UnreachableFlows int64                `json:"unreachable_flows"`
	PacketHops       int64                `json:"packet_hops"`
	// SimulateSeconds is the expected duration of a simulation of the whole network with Workers workers.
	// PacketHopNS is the expected processor time of one packet-hop. See Predict.
	PacketHopNS     float64 `json:"packet_hop_ns"`
	SimulateSeconds float64 `json:"simulate_seconds"`
	Workers         int     `json:"workers"`

	hosts int
}

// A SkippedFile is a source that was skipped, and the reason.
type SkippedFile struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

// A SkippedError reports sources that were skipped because they cannot be read.
type SkippedError struct{ Files []SkippedFile }

// Error names the files.
func (e *SkippedError) Error() string {
	files := names.Of(e.Files, func(s SkippedFile) string { return s.Why })
	return fmt.Sprintf("left out %d files that cannot be read (--skip-damaged): %s", len(files),
		names.Listed(files, 20))
}

// LinkForecast is the load of a link before any simulation, computed by route.Loads.
type LinkForecast struct {
	LinkID       int32   `json:"link_id"`
	Src          int32   `json:"src_node"`
	Dst          int32   `json:"dst_node"`
	Name         string  `json:"link"` // topology.Network.LinkName
	SrcName      string  `json:"src_name"`
	DstName      string  `json:"dst_name"`
	Flows        int64   `json:"flows"`
	Bytes        int64   `json:"bytes"`
	Load         float64 `json:"load"`
	BandwidthBps int64   `json:"bandwidth_bps"`
}

// reportRows completes the report by the workload and the counts of the sources.
func (in *ingestion) reportRows() {
	r := in.report
	r.Workload, r.Lake, r.Workers = string(in.state.ID), in.session.Path(), in.Workers
	c := in.state.counts()
	r.Rows = c.Rows
	r.Reverse = c.Reverse
	r.Rejects = c.Rejects
	r.SetAside = c.SetAside
	r.Reasons = c.Reasons
}

// finish completes the report of the workload's current content.
func (in *ingestion) finish() error {
	in.reportRows()
	r := in.report
	m := &in.state.Merge
	r.Flows = m.Flows
	r.Merged = m.Merged
	r.SyntheticStarts = m.SyntheticStarts
	r.FirstStartNS = m.FirstStartNS
	r.LastStartNS = m.LastStartNS
	r.LastEndNS = m.LastEndNS
	r.Notes = append(r.Notes, m.Notes(m.FirstStartNS, m.LastStartNS)...)
	for _, c := range m.Corrections {
		r.Notes = append(r.Notes,
			fmt.Sprintf("%s has rows of %s, which was ingested before it, with other content: %d rows of the earlier "+
				"file are not in it, and count beside its own; if it is a correction, parsimon rm --workload %s --lake "+
				"%s, and ingest all files but the earlier one again", c.File, c.Before, c.Rows,
				r.Workload, r.Lake))
	}
	for _, c := range m.Chunks {
		r.UnreachableFlows += c.UnreachableFlows
		r.PacketHops += c.PacketHops
	}
	r.Labels = m.Labels
	for _, l := range r.Labels {
		r.Bytes += l.Bytes
	}
	if err := in.reportLinks(); err != nil {
		return err
	}
	r.hosts = len(in.net.Hosts())
	return nil
}

// Predict sets the expected cost of a simulation. model returns the processor time, in seconds, for a number
// of hosts, flows and packet-hops.
func (r *Report) Predict(model func(hosts int, flows, packetHops int64) float64) {
	seconds := model(r.hosts, r.Flows, r.PacketHops)
	r.PacketHopNS = seconds * 1e9 / float64(max(1, r.PacketHops))
	r.SimulateSeconds = seconds / float64(max(1, r.Workers))
}

// reportLinks adds the loads of the links.
func (in *ingestion) reportLinks() error {
	r := in.report
	loads := in.session.Read(schema.LinkLoads, lake.FilesOf(in.state.Merge.Files, schema.LinkLoads), nil)
	all, err := route.ReadLoads(in.net, loads)
	if err != nil {
		return err
	}
	params := simkernel.DefaultParams()
	// Including those of flows without a path.
	all.FirstStartNS = r.FirstStartNS
	all.LastStartNS = max(r.LastStartNS, r.LastEndNS-1)
	for id, l := range all.Links {
		if l.Flows == 0 {
			continue
		}
		link := in.net.Links[id]
		r.Links = append(r.Links, LinkForecast{LinkID: link.ID, Src: link.Src, Dst: link.Dst,
			Name: in.net.LinkName(link.ID), SrcName: in.net.Name(link.Src), DstName: in.net.Name(link.Dst),
			Flows: l.Flows, Bytes: l.Bytes,
			Load: all.ReportedLoad(&params, link), BandwidthBps: link.BandwidthBps})
	}
	slices.SortFunc(r.Links, func(a, b LinkForecast) int {
		return cmp.Or(cmp.Compare(b.Load, a.Load), cmp.Compare(a.LinkID, b.LinkID))
	})
	return nil
}

// hottestShown is the number of links in the report, in addition to links above 100%.
const hottestShown = 5

// Text formats the report for users.
func (r *Report) Text() *text.Answer {
	p := &text.Answer{}
	r.writeSources(p)
	if r.Shard != "" {
		p.Linef("%d rows in, %d rejected\n\nNext, after all shards: the same command without --shard merges their "+
			"records", r.Rows, r.Rejects)
		return p
	}
	r.writeRows(p)
	r.writeLinks(p)
	if r.UnreachableFlows > 0 {
		p.Linef("%d flows have no path", r.UnreachableFlows)
	}
	p.Linef("\n%s packet-hops to simulate: about %s for the whole network (exact) with %d workers",
		units.Human(float64(r.PacketHops)), time.Duration(r.SimulateSeconds*1e9).Round(time.Second/10), r.Workers)
	p.Linef("\nNext:\n  parsimon run --workload %s --lake %s\n  parsimon query --lake %s --sql \"SELECT "+
		"reason, count(*) FROM workload_rejects GROUP BY reason\"", r.Workload, r.Lake, r.Lake)
	return p
}

// writeSources lists the number of sources, and what is remarkable about them.
func (r *Report) writeSources(p *text.Answer) {
	if r.Shard == "" {
		p.Linef("workload %s: %s added, %d in it before; lake %s", r.Workload, topology.Count(r.NewFiles, "file"),
			r.KnownFiles, r.Lake)
	} else {
		p.Linef("shard %s of workload %s: %s; lake %s", r.Shard, r.Workload, topology.Count(r.NewFiles, "file"),
			r.Lake)
	}
	if r.TakenFiles > 0 {
		p.Linef("%d of the files were read before, by shards or by an ingest that did not end", r.TakenFiles)
	}
	for _, s := range r.Skipped {
		p.Linef("left out: %s", s.Why)
	}
	for _, note := range r.Notes {
		p.Linef("warning: %s", note)
	}
}

// writeRows lists what became of the rows, and the labels of the flows.
func (r *Report) writeRows(p *text.Answer) {
	if r.Repeated > 0 {
		p.Linef("%d rows repeat rows of earlier files; each counts once (the others are merged)", r.Repeated)
	}
	both := ""
	if r.Reverse > 0 {
		both = fmt.Sprintf(" + %d second directions of rows that have both", r.Reverse)
	}
	p.Linef("%d rows in%s = %d flows + %d merged + %d rejected (%d of them are not flows according to the log, "+
		"such as NODATA lines)", r.Rows, both, r.Flows, r.Merged, r.Rejects, r.SetAside)
	for _, why := range r.Reasons {
		p.Linef("  %v", why)
		if advice := why.Advice(); advice != "" {
			p.Linef("    %s", advice)
		}
	}
	lastNS := max(r.LastStartNS, r.LastEndNS)
	p.Linef("from %s to %s: %s, %s bytes", units.Time(r.FirstStartNS), units.Time(lastNS),
		time.Duration(lastNS-r.FirstStartNS).Round(time.Millisecond), units.Human(float64(r.Bytes)))
	if r.SyntheticStarts > 0 {
		p.Linef("%.1f%% of the flows have a synthetic start: the trace has it to the second or ms only, or "+
			"sampled packets, and the rest is drawn", 100*float64(r.SyntheticStarts)/float64(max(1, r.Flows)))
	}
	p.Linef("\n%-24s %-24s %12s %16s %8s", "service", "vnet", "flows", "bytes", "share")
	for i, l := range r.Labels {
		if i == 20 {
			p.Linef("… and %d more", len(r.Labels)-i)
			break
		}
		p.Linef("%-24s %-24s %12d %16d %7.2f%%", cmp.Or(l.Service, "(none)"), cmp.Or(l.VNet, "(none)"), l.Flows,
			l.Bytes, 100*float64(l.Bytes)/float64(max(1, r.Bytes)))
	}
}

// writeLinks lists the most loaded links, and all links above 100%.
func (r *Report) writeLinks(p *text.Answer) {
	over := 0
	for _, l := range r.Links {
		if l.Load > 1 {
			over++
		}
	}
	p.Linef("\nOffered load of the links: bytes without headers over the time of the workload (%d of %d above "+
		"100%%)", over, len(r.Links))
	p.Linef("%-8s %-44s %10s %16s %9s", "link_id", "link", "flows", "bytes", "load")
	for i, l := range r.Links {
		if i >= hottestShown && l.Load <= 1 || i >= 50 {
			break
		}
		decimals := 2
		if l.Load > 0 { // at least two digits
			decimals = max(2, 1-int(math.Floor(math.Log10(100*l.Load))))
		}
		p.Linef("%-8d %-44s %10d %16d %8.*f%%", l.LinkID, l.Name, l.Flows, l.Bytes, decimals,
			100*l.Load)
	}
}
