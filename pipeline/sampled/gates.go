package sampled

import (
	"errors"
	"fmt"

	"parsimon/pipeline/gate"
	"parsimon/schema/sizebin"
	"parsimon/stages"
)

// selected are the group and the size bin that a gate selects.
func selected(g gate.Gate) (group, bin string, err error) {
	if g.FCT {
		return "", "", errors.New("estimates from windows have percentiles of slowdown only")
	}
	service, byService := g.Filter["service"]
	vnet, byVNet := g.Filter["vnet"]
	bin, bySize := g.Filter["size_bin"]
	if byVNet && (byService || bySize) {
		return "", "", errors.New("estimates from windows have virtual networks of all services and sizes only")
	}
	if !bySize {
		bin = sizebin.All
	}
	switch {
	case byService:
		return groupName(Key{By: stages.ByService, Label: service}), bin, nil
	case byVNet:
		return groupName(Key{By: stages.ByVNet, Label: vnet}), bin, nil
	}
	return groupName(all), bin, nil
}

// Judge holds gates against the percentiles, and keeps the verdicts. The error is a *gate.Error if any failed.
func (r *Result) Judge(gates []gate.Gate) (err error) {
	r.Gates, err = gate.JudgeIntervals(gates, func(g gate.Gate) (x gate.Interval, err error) {
		group, bin, err := selected(g)
		if err != nil {
			return x, err
		}
		for _, row := range r.Rows {
			if groupName(row.Key) == group && row.SizeBin == bin && row.Quantile == g.Quantile {
				return gate.Interval{Value: row.Estimate, Lo: row.Lo, Hi: row.Hi}, nil
			}
		}
		return x, fmt.Errorf("no flow in windows is of %s, size %s", group, bin)
	})
	return err
}

// Judge holds gates against the changes, and keeps the verdicts. Slowdowns are those of the other scenario, without an
// interval.
func (r *Comparison) Judge(gates []gate.Gate) (err error) {
	r.Gates, err = gate.JudgeIntervals(gates, func(g gate.Gate) (x gate.Interval, err error) {
		group, bin, err := selected(g)
		if err != nil {
			return x, err
		}
		for _, c := range r.Changes {
			switch {
			case c.Group != group || c.SizeBin != bin || c.Quantile != g.Quantile:
			case g.Change:
				return gate.Interval{Value: c.Change, Lo: c.Lo, Hi: c.Hi}, nil
			default:
				return gate.Interval{Value: c.Other, Lo: c.Other, Hi: c.Other}, nil
			}
		}
		return x, fmt.Errorf("no flow in windows is of %s, size %s", group, bin)
	})
	return err
}
