package summary

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages/estimators"
)

// An interval is the interval of a percentile: of a size bin of all flows, or of a service.
type interval struct {
	service                *string // nil: the flows of all services
	sizeBin                string
	quantile               float64
	lo, hi                 *float64 // nil: not known
	workloadLo, workloadHi *float64 // of the first part alone; nil: there is no other part
	methodError            *float64 // nil: not known
	warning                string
}

// readIntervals reads the intervals of size bins and of services, in ascending order of quantiles. An
// estimate that is deleted afterwards has none.
func readIntervals(e *pipeline.Estimation) (all []interval, err error) {
	in, err := read(e, schema.Intervals)
	if err != nil {
		return nil, err
	}
	err = columns.ForEach(in, func(rec arrow.Record) error {
		service := columns.Named(rec, "service").(*array.String)
		vnet := columns.Named(rec, "vnet")
		sizeBin := columns.Named(rec, "size_bin").(*array.String)
		warning := columns.Named(rec, "warning").(*array.String)
		for row, quantile := range columns.Float64s(rec, "quantile") {
			i := interval{quantile: quantile, sizeBin: strings.Clone(sizeBin.Value(row)),
				warning: strings.Clone(warning.Value(row)), lo: known(rec, "lo", row), hi: known(rec, "hi", row),
				workloadLo:  known(rec, "workload_lo", row),
				workloadHi:  known(rec, "workload_hi", row),
				methodError: known(rec, "method_error", row)}
			if !service.IsNull(row) {
				name := strings.Clone(service.Value(row))
				i.service = &name
			}
			if vnet.IsNull(row) && (i.service == nil || i.sizeBin == sizebin.All) {
				all = append(all, i)
			}
		}
		return nil
	})
	slices.SortStableFunc(all, func(a, b interval) int { return cmp.Compare(a.quantile, b.quantile) })
	return all, err
}

// known returns a number of a batch, or nil for null.
func known(rec arrow.Record, column string, row int) *float64 {
	c := columns.Named(rec, column).(*array.Float64)
	if c.IsNull(row) {
		return nil
	}
	value := c.Value(row)
	return &value
}

// name returns the name of the percentile, such as p99.9.
func (i *interval) name() string { return fmt.Sprintf("p%g", math.Round(i.quantile*1000)/10) }

// addIntervals adds the intervals of all flows, and their two parts if the part of the method is known.
func (r *Result) addIntervals(a *text.Answer) {
	var whole, workload, method []string
	for _, i := range r.intervals {
		if i.service != nil || i.sizeBin != sizebin.All {
			continue
		}
		if i.lo != nil && i.hi != nil {
			whole = append(whole, fmt.Sprintf("%s %.3f to %.3f", i.name(), *i.lo, *i.hi))
		}
		if i.workloadLo != nil && i.workloadHi != nil {
			workload = append(workload, fmt.Sprintf("%s %.3f to %.3f", i.name(), *i.workloadLo, *i.workloadHi))
		}
		if i.methodError != nil {
			method = append(method, fmt.Sprintf("%s ±%.1f%%", i.name(), 100**i.methodError))
		}
	}
	list := func(parts []string) string { return strings.Join(parts, ", ") }
	switch {
	case whole == nil:
	case method != nil:
		a.Linef("95%% intervals of all flows: %s", list(whole))
		a.Linef("  part due to the traffic (other flows of the same kind): %s", list(workload))
		a.Linef("  part due to the method (its own error): %s", list(method))
	default:
		part := "not the method's own error"
		if r.of.Variant().Estimator == estimators.Exact {
			part = "every packet was simulated"
		}
		a.Linef("95%% intervals of all flows: %s (for other traffic of the same kind; %s)", list(whole), part)
	}
}

// fewFlows returns the percentiles of size bins for which the workload is too short, or an empty string.
func fewFlows(all []interval) string {
	var groups []string
	for _, bin := range append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All}) {
		var names []string
		for _, i := range all {
			if i.service == nil && i.sizeBin == bin.Name && i.warning != "" {
				names = append(names, i.name())
			}
		}
		percentiles := strings.Join(names, ", ")
		if len(names) == len(pipeline.Quantiles) {
			percentiles = "any percentile"
		}
		flows := bin.Name
		if flows == sizebin.All {
			flows = "all flows"
		}
		if names != nil {
			groups = append(groups, percentiles+" of "+flows)
		}
	}
	return strings.Join(groups, "; ")
}

// A cause is a kind of warnings about links, or one remark.
type cause struct{ kind, remark string }

// A causeOf has the number of warnings of a cause, and the one with the largest measure.
type causeOf struct {
	count   int
	text    string
	measure *float64
	link    int32
}

// add adds a warning.
func (c *causeOf) add(text string, measure *float64, link int32) {
	c.count++
	larger := c.count == 1
	switch {
	case c.count == 1:
	case measure == nil || c.measure == nil:
		larger = measure != nil || c.measure == nil && link < c.link
	default:
		larger = *measure > *c.measure || *measure == *c.measure && link < c.link
	}
	if larger {
		c.text = strings.Clone(text)
		c.measure = measure
		c.link = link
	}
}

// readCauses reads the causes of warnings about an estimate.
func readCauses(e *pipeline.Estimation) (map[cause]*causeOf, error) {
	in, err := read(e, schema.Warnings)
	if err != nil {
		return nil, err
	}
	all := map[cause]*causeOf{}
	err = columns.ForEach(in, func(rec arrow.Record) error {
		kinds := columns.Named(rec, "kind").(*array.String)
		texts := columns.Named(rec, "warning").(*array.String)
		links := columns.Named(rec, "link_id").(*array.Int32)
		for row := range int(rec.NumRows()) {
			of := cause{kind: kinds.Value(row)}
			if links.IsNull(row) {
				of.remark = texts.Value(row)
			}
			if all[of] == nil {
				all[cause{strings.Clone(of.kind), strings.Clone(of.remark)}] = &causeOf{}
			}
			all[of].add(texts.Value(row), known(rec, "measure", row), links.Value(row))
		}
		return nil
	})
	return all, err
}

// causeLines returns a line for each cause, by kind and then by text. The command lists all warnings.
func causeLines(causes map[cause]*causeOf, command string) []string {
	type line struct{ kind, text string }
	var sorted []line
	for of, c := range causes {
		text := of.kind + ": " + c.text
		if c.count > 1 {
			text += fmt.Sprintf(" (the largest of %d; %s lists them)", c.count, command)
		}
		sorted = append(sorted, line{of.kind, text})
	}
	slices.SortFunc(sorted, func(a, b line) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.text, b.text))
	})
	all := []string{} // not null in JSON
	for _, l := range sorted {
		all = append(all, l.text)
	}
	return all
}

// Warnings returns the warnings about an estimate, except those about the length of the workload.
func Warnings(e *pipeline.Estimation) ([]string, error) {
	links, err := readLinks(e)
	if err != nil {
		return nil, err
	}
	l, err := load(e, links)
	if err != nil {
		return nil, err
	}
	return warnings(e, l, nil)
}

// warnings returns the warnings about the estimate. Each cause has one line with the number of affected links
// and what to do. Another line lists the percentiles for which the workload is too short.
func warnings(e *pipeline.Estimation, l *LoadResult, of []interval) ([]string, error) {
	causes, err := readCauses(e)
	if err != nil {
		return nil, err
	}
	all := causeLines(causes, fmt.Sprintf(`parsimon query --lake %s --sql "SELECT * FROM warnings_all WHERE %s"`,
		e.Lake.Path(), selected(e)))
	few := fewFlows(of)
	if few != "" {
		longer := "a longer workload (of an ingested one: --from and --to)"
		if e.Spec.MaxLoad > 0 {
			longer = "more time (--duration)"
		}
		all = append(all, fmt.Sprintf("few flows: the workload is too short to be sure of %s. Estimate %s, or use "+
			"lower percentiles", few, longer))
	}
	warning := l.warning()
	if warning != "" {
		all = append(all, warning)
	}
	return all, nil
}
