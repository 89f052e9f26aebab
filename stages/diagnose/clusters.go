package diagnose

import (
	"fmt"
	"math"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/step"
)

// clusters returns the warning of an estimate with clusters. The flows of the links that draw from others are
// not simulated, so nothing shows how much their delays would change with other traffic.
func (e *Estimate) clusters(t step.Task) ([]Warning, error) {
	if e.Clusters == nil {
		return nil, nil
	}
	type member struct {
		Link           int32 `col:"link_id"`
		Representative int32 `col:"representative"`
	}
	links := 0
	others := 0
	err := columns.Each(t.Read(step.All, e.Clusters.Output(schema.LinkClusters)), func(l *member) error {
		links++
		if l.Link != l.Representative {
			others++
		}
		return nil
	})
	return []Warning{{
		Kind: "clusters", Measure: math.NaN(), Threshold: math.NaN(), Link: -1,
		Text: fmt.Sprintf("percentiles have no intervals: with --cluster, %d of %d links draw the delays of other "+
			"links, so it is not known how much they change with other traffic; estimate without --cluster", others,
			links),
	}}, err
}
