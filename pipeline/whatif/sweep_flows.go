package whatif

import (
	"cmp"
	"slices"
	"strings"

	"parsimon/pipeline"
	"parsimon/pipeline/summary"
	"parsimon/schema"
	"parsimon/schema/columns"
)

// A sweptFlow is what a sweep reads of table slowdowns. All estimates of a sweep have the same flows, so a
// row of table flows is the same flow in all of them.
type sweptFlow struct {
	Row      int64   `col:"flow_row"`
	Service  string  `col:"service"`
	FCTNS    int64   `col:"fct_ns"`
	Slowdown float64 `col:"slowdown"`
}

// bytesPerSwept is the memory that a cable needs for each flow after its estimate: a sweptFlow, 32 bytes for
// the values of percentiles, and 160 for the comparison with the base (Comparison.compare).
const bytesPerSwept = sweptFlowBytes + 32 + 160

// sweptFlowBytes is the size of a sweptFlow. The flows of the base are in memory during the whole sweep.
const sweptFlowBytes = 40

func (f *sweptFlow) fctMS() float64 { return float64(f.FCTNS) / 1e6 }

// readSwept reads the flows of an estimate, in the order of their rows. expected is their number, 0 if it is
// not known.
func readSwept(of *pipeline.Estimation, expected int) ([]sweptFlow, error) {
	in, err := of.Read(schema.Slowdowns)
	if err != nil {
		return nil, err
	}
	all := make([]sweptFlow, 0, expected)
	services := map[string]string{}
	err = columns.Each(in, func(f *sweptFlow) error {
		service, known := services[f.Service]
		if !known {
			service = strings.Clone(f.Service) // the memory of the batch is reused
			services[service] = service
		}
		all = append(all, *f)
		all[len(all)-1].Service = service
		return nil
	})
	slices.SortFunc(all, func(a, b sweptFlow) int { return cmp.Compare(a.Row, b.Row) })
	return all, err
}

// eachPair calls do for each flow that is in both estimates, in the order of rows.
func eachPair(base, other []sweptFlow, do func(p *pair) error) error {
	for i := range other {
		o := &other[i]
		for len(base) > 0 && base[0].Row < o.Row {
			base = base[1:]
		}
		if len(base) == 0 || base[0].Row != o.Row {
			continue
		}
		b := &base[0]
		err := do(&pair{Row: b.Row, Service: b.Service, Base: b.Slowdown, Other: o.Slowdown, BaseFCT: b.fctMS(),
			OtherFCT: o.fctMS()})
		if err != nil {
			return err
		}
	}
	return nil
}

// servicePercentiles returns the percentiles at pipeline.Quantiles, for each service and for all flows, whose
// name is AllFlows. A service with this name is left out.
func servicePercentiles(flows []sweptFlow) percentilesOf {
	slowdowns := map[string][]float64{}
	fcts := map[string][]float64{}
	add := func(service string, f *sweptFlow) {
		slowdowns[service] = append(slowdowns[service], f.Slowdown)
		fcts[service] = append(fcts[service], f.fctMS())
	}
	for i := range flows {
		f := &flows[i]
		add(AllFlows, f)
		if f.Service != AllFlows {
			add(f.Service, f)
		}
	}
	out := percentilesOf{}
	for service, s := range slowdowns {
		out[service] = newPercentiles(int64(len(s)), quantiles(s), quantiles(fcts[service]))
	}
	return out
}

// quantiles sorts values and returns them at pipeline.Quantiles.
func quantiles(values []float64) (out []float64) {
	slices.Sort(values)
	for _, q := range pipeline.Quantiles {
		out = append(out, summary.Quantile(values, q))
	}
	return out
}
