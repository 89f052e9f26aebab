package summary

import (
	"cmp"
	"fmt"
	"slices"

	"parsimon/pipeline"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/schema/columns"
)

// A linkRow has the columns of table link_stats that a summary shows.
type linkRow struct {
	ID            int32   `col:"link_id"`
	Flows         int64   `col:"flows"`
	Bytes         int64   `col:"bytes"`
	Load          float64 `col:"load"`
	PacketsSent   int64   `col:"packets_sent"`
	MaxQueueBytes int64   `col:"max_queue_bytes"`
}

// readLinks reads the links of an estimate, in descending order of load.
func readLinks(e *pipeline.Estimation) (all []linkRow, err error) {
	in, err := read(e, schema.LinkStats)
	if err != nil {
		return nil, err
	}
	err = columns.Each(in, func(row *linkRow) error {
		all = append(all, *row)
		return nil
	})
	slices.SortFunc(all, func(a, b linkRow) int {
		return cmp.Or(cmp.Compare(b.Load, a.Load), cmp.Compare(a.ID, b.ID))
	})
	return all, err
}

// mostLinks is the number of links that Text lists.
const mostLinks = 5

// addLinks adds the most loaded links to a text for users, as question hottest_links lists them.
func (r *Result) addLinks(a *text.Answer) {
	a.Linef("\nMost loaded links")
	table := a.Table("place", "link_id", "link", "src_node", "dst_node", "src_name", "dst_name", "tier",
		"bandwidth_bps", "flows", "bytes", "load", "max_queue_bytes")
	n := r.of.Network
	for i, row := range r.links[:min(mostLinks, len(r.links))] {
		l := n.Links[row.ID]
		var queue any
		if row.PacketsSent > 0 { // otherwise the link was not simulated
			queue = row.MaxQueueBytes
		}
		table.Add(int64(i+1), l.ID, n.LinkName(l.ID), l.Src, l.Dst, n.Name(l.Src), n.Name(l.Dst), l.Tier,
			l.BandwidthBps, row.Flows, row.Bytes, row.Load, queue)
	}
}

// A meanLoad has the mean load of a network, and that of its most loaded links.
type meanLoad struct {
	links, top           int     // number of links that are up, and a tenth of it, rounded up
	highest, ofTop, mean float64 // loads
}

// meanLoadOf is question load_top10: the measure of the paper's section 5. A link without flows has no load.
func (r *Result) meanLoadOf() (m meanLoad) {
	for _, l := range r.of.Network.Links {
		if !l.Failed {
			m.links++
		}
	}
	m.links = max(m.links, len(r.links))
	m.top = (m.links + 9) / 10
	sum := 0.0
	for i, row := range r.links {
		sum += row.Load
		if i < m.top {
			m.ofTop = sum / float64(m.top)
		}
	}
	m.mean = sum / float64(m.links)
	if len(r.links) > 0 {
		m.highest = r.links[0].Load
	}
	return m
}

// addLoad adds the load of the network to a text for users.
func (r *Result) addLoad(a *text.Answer) {
	a.Linef("\nLoad of the network")
	table := a.Table("links", "top_links", "max_load", "top10_mean_load", "mean_load")
	if len(r.links) > 0 {
		m := r.meanLoadOf()
		table.Add(m.links, m.top, m.highest, m.ofTop, m.mean)
	}
	r.Load.addTo(a)
}

// A LoadResult compares the load for which a workload was drawn with the load of its flows. Both are without
// headers.
type LoadResult struct {
	Asked   float64 `json:"asked"`   // expected load of the most loaded link, from the traffic matrices
	Reached float64 `json:"reached"` // load of the most loaded link
	LinkID  int32   `json:"link_id"` // the most loaded link
	Link    string  `json:"link"`
}

// mostReached is the maximum ratio of the load of a workload to the requested load without a warning.
const mostReached = 1.2

// load returns the load of a workload that was drawn for a load. It returns nil for traces and changed
// workloads. The links are in descending order of load.
func load(e *pipeline.Estimation, links []linkRow) (*LoadResult, error) {
	g, err := e.Generated()
	if err != nil || g.ExpectedMaxLoad == 0 || len(links) == 0 {
		return nil, err
	}
	most := links[0]
	return &LoadResult{g.ExpectedMaxLoad, most.Load, most.ID, e.Network.LinkName(most.ID)}, nil
}

// warning returns a warning if the load is far above the requested load. Otherwise it returns an empty
// string.
func (l *LoadResult) warning() string {
	if l == nil || l.Reached <= mostReached*l.Asked {
		return ""
	}
	return fmt.Sprintf("load: the most loaded link, %s, has a load of %.3g, which is %.2f times the %.3g that "+
		"the scenario asks for. The workload is too short for its mean: a few large flows or bursts dominate. "+
		"Generate more time (--duration), or try another --seed", l.Link, l.Reached, l.Reached/l.Asked, l.Asked)
}

// addTo adds both loads to a text for users.
func (l *LoadResult) addTo(a *text.Answer) {
	if l != nil {
		a.Linef("load of the most loaded link: %.4f (%s, link %d); asked for: %.4f; both without headers",
			l.Reached, l.Link, l.LinkID, l.Asked)
	}
}
