package summary

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"parsimon/pipeline/catalog"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/selection"
	"parsimon/schema/sizebin"
)

// readPercentiles reads the percentiles of size bins and of services. The percentiles of few flows
// are computed in memory. For more flows, it asks the questions of which these are the answers.
func (r *Result) readPercentiles(ctx context.Context, q *lateDB, o Options) error {
	files, err := r.of.Files(schema.Slowdowns)
	if err != nil {
		return err
	}
	flows := int64(0)
	for _, f := range files {
		flows += f.Rows
	}
	if flows < catalog.FewFlows {
		err = r.computePercentiles(o)
	} else {
		err = r.askPercentiles(ctx, q, o)
	}
	sortServices(r.Services)
	r.Services = r.Services[:min(mostServices, len(r.Services))]
	return err
}

// sortServices sorts services in descending order of flows, and otherwise by their names.
func sortServices(all []PercentilesResult) {
	slices.SortFunc(all, func(a, b PercentilesResult) int {
		return cmp.Or(cmp.Compare(b.Flows, a.Flows), cmp.Compare(a.Service, b.Service))
	})
}

// askPercentiles asks for the percentiles.
func (r *Result) askPercentiles(ctx context.Context, q *lateDB, o Options) error {
	db, err := q.open(ctx)
	if err != nil {
		return err
	}
	r.Percentiles, err = answers[PercentilesResult](ctx, db, r.of, "slowdown_by_size", nil)
	if err == nil && o.Services {
		r.Services, err = answers[PercentilesResult](ctx, db, r.of, "slowdown_by_service", nil)
	}
	return err
}

// computePercentiles computes the answers of questions slowdown_by_size and slowdown_by_service.
func (r *Result) computePercentiles(o Options) error {
	in, err := read(r.of, schema.Slowdowns)
	if err != nil {
		return err
	}
	var bins [sizebin.Count]flowGroup
	byService := map[string]*flowGroup{}
	err = columns.Each(in, func(row *flowRow) error {
		bins[sizebin.Of(row.SizeBytes)].add(row)
		if o.Services {
			group := byService[row.Service]
			if group == nil {
				group = &flowGroup{}
				byService[strings.Clone(row.Service)] = group
			}
			group.add(row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var all flowGroup
	for i, bin := range sizebin.Bins() {
		all.slowdowns = append(all.slowdowns, bins[i].slowdowns...)
		all.fcts = append(all.fcts, bins[i].fcts...)
		r.addGroup(&bins[i], bin.Name)
	}
	r.addGroup(&all, sizebin.All)
	for name, group := range byService {
		p := group.percentiles()
		p.Service = name
		for _, i := range r.intervals {
			if i.service != nil && *i.service == name {
				p.setInterval(i)
			}
		}
		r.Services = append(r.Services, p)
	}
	return nil
}

// addGroup adds the percentiles of a size bin, unless it has no flows.
func (r *Result) addGroup(g *flowGroup, bin string) {
	if len(g.slowdowns) == 0 {
		return
	}
	p := g.percentiles()
	p.SizeBin = bin
	for _, i := range r.intervals {
		if i.service == nil && i.sizeBin == bin {
			p.setInterval(i)
		}
	}
	r.Percentiles = append(r.Percentiles, p)
}

// A flowRow has the columns of table slowdowns that percentiles depend on.
type flowRow struct {
	Service   string  `col:"service"`
	SizeBytes int64   `col:"size_bytes"`
	FCTNS     int64   `col:"fct_ns"`
	Slowdown  float64 `col:"slowdown"`
}

// A flowGroup has the slowdowns and the FCTs, in ns, of a group of flows.
type flowGroup struct{ slowdowns, fcts []float64 }

// add adds a flow.
func (g *flowGroup) add(row *flowRow) {
	g.slowdowns = append(g.slowdowns, row.Slowdown)
	g.fcts = append(g.fcts, float64(row.FCTNS))
}

// percentiles returns the percentiles of a group with flows. It changes the order of the values.
func (g *flowGroup) percentiles() PercentilesResult {
	orderFor(g.slowdowns, 0.5, 0.9, 0.99, 0.999, 1)
	orderFor(g.fcts, 0.5, 0.99)
	fct := func(p float64) *float64 {
		ms := Quantile(g.fcts, p) / 1e6
		return &ms
	}
	return PercentilesResult{
		Flows: int64(len(g.slowdowns)),
		P50:   Quantile(g.slowdowns, 0.5), P90: Quantile(g.slowdowns, 0.9),
		P99: Quantile(g.slowdowns, 0.99), P999: Quantile(g.slowdowns, 0.999),
		Max:    g.slowdowns[len(g.slowdowns)-1],
		P50FCT: fct(0.5), P99FCT: fct(0.99),
	}
}

// orderFor sorts values as far as Quantile needs it for some quantiles, which ascend.
func orderFor(values []float64, quantiles ...float64) {
	from := 0 // values before it are in their places
	for _, p := range quantiles {
		rank := float64(len(values)-1) * p
		for _, at := range []int{int(rank), int(math.Ceil(rank))} {
			if at >= from {
				selection.Place(values[from:], at-from)
				from = at + 1
			}
		}
	}
}

// Quantile interpolates between the two nearest of sorted values, with the same bits as DuckDB's
// quantile_cont.
func Quantile(sorted []float64, p float64) float64 {
	rank := float64(len(sorted)-1) * p
	below := math.Floor(rank)
	part := rank - below
	lower := sorted[int(below)]
	upper := sorted[int(math.Ceil(rank))]
	if part == 0 {
		return lower
	}
	return float64(lower*(1-part)) + float64(upper*part)
}

// setInterval sets the bounds of the interval of a percentile.
func (p *PercentilesResult) setInterval(i interval) {
	switch i.quantile {
	case 0.5:
		p.P50Lo = i.lo
		p.P50Hi = i.hi
	case 0.9:
		p.P90Lo = i.lo
		p.P90Hi = i.hi
	case 0.99:
		p.P99Lo = i.lo
		p.P99Hi = i.hi
	case 0.999:
		p.P999Lo = i.lo
		p.P999Hi = i.hi
	}
}
