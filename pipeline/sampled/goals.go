package sampled

import "math"

// A Goal is an asked percentile of a group of flows and how precise it is.
type Goal struct {
	Group     string  `json:"group"` // such as "service storage"
	SizeBin   string  `json:"size_bin"`
	Quantile  float64 `json:"quantile"`
	Sampled   int64   `json:"sampled"`    // flows of the group in windows
	HalfWidth float64 `json:"half_width"` // of the sampling part of the interval, relative; 0 if not Known
	Known     bool    `json:"known"`      // there are enough sampled flows for an interval
	Reached   bool    `json:"reached"`

	row Row
}

// goals are the asked percentiles of all groups with flows, in the order of the groups.
func (s *sampler) goals() (all []Goal) {
	for _, k := range s.asked() {
		rows := map[float64]Row{}
		for _, row := range s.rowsOf(k) {
			rows[row.Quantile] = row
		}
		for _, q := range s.ask.Of {
			row, found := rows[q]
			if !found {
				row = Row{Key: k, SizeBin: k.binName(), Quantile: q}
			}
			g := Goal{Group: groupName(k), SizeBin: k.binName(), Quantile: q, Sampled: row.Sampled, row: row}
			if half := row.HalfWidth(); !math.IsInf(half, 0) {
				g.HalfWidth, g.Known, g.Reached = half, true, half <= s.ask.Within
			}
			all = append(all, g)
		}
	}
	return all
}

// asked are the asked groups that have flows.
func (s *sampler) asked() (all []Key) {
	for _, k := range s.index.order {
		if s.index.totals[k] > 0 && s.ask.wants(Row{Key: k, SizeBin: k.binName(), Quantile: s.ask.Of[0]}) {
			all = append(all, k)
		}
	}
	return all
}

// widest is the goal with the widest interval, and reached how many are reached. There is a goal: Run checks it.
func widest(goals []Goal) (worst Goal, reached int) {
	for i, g := range goals {
		if i == 0 || g.row.HalfWidth() > worst.row.HalfWidth() {
			worst = g
		}
		if g.Reached {
			reached++
		}
	}
	return worst, reached
}
