package summary

import (
	"context"
	"fmt"

	"parsimon/pipeline"
	"parsimon/pipeline/text"
	"parsimon/queries"
)

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
// workloads.
func load(ctx context.Context, db *queries.DB, e *pipeline.Estimation) (*LoadResult, error) {
	g, err := e.Generated()
	if err != nil || g.ExpectedMaxLoad == 0 {
		return nil, err
	}
	found, err := db.Ask(ctx, "load", "SELECT load, CAST(link_id AS BIGINT) FROM link_stats_all WHERE "+
		selected(e)+" ORDER BY load DESC, link_id LIMIT 1")
	if err != nil || len(found.Rows) == 0 {
		return nil, err
	}
	reached, _ := found.Rows[0][0].(float64)
	id, _ := found.Rows[0][1].(int64)
	return &LoadResult{g.ExpectedMaxLoad, reached, int32(id), e.Network.LinkName(int32(id))}, nil
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
