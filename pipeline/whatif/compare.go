package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema/sizebin"
	"parsimon/schema/units"
	"parsimon/stages"
)

// A Side is one of two estimates to compare. Compare completes it: Scenario becomes the id, Variant the name.
type Side struct {
	Scenario string `json:"scenario_id"` // id, the first letters of one, or name
	Variant  string `json:"variant"`     // empty: see Compare
}

// CompareOptions say how to compare.
type CompareOptions struct {
	// By groups the flows: columns of ComparisonGroups; none: all flows together.
	By []string
	// Across allows estimates made in different ways, whose difference is also that of the ways.
	Across bool
	// Links is how many links to name as explanation.
	Links int
	// MemoryBytes is what the comparison may hold; 0: pipeline.DefaultMemory.
	MemoryBytes int64

	changed []scenario.CableChange // of a what-if
}

// ComparisonGroups lists what flows can be grouped by.
func ComparisonGroups() []string { return []string{"service", "vnet", "size_bin", "hops"} }

// A Comparison is two estimates side by side.
type Comparison struct {
	Base      Side   `json:"base"` // ids and variants
	Other     Side   `json:"other"`
	BaseName  string `json:"base_name"`
	OtherName string `json:"other_name"`
	BaseFlows int64  `json:"base_flows"`
	Flows     int64  `json:"flows"`
	Both      int64  `json:"flows_in_both"`
	// IdealChanged is of how many flows in both the ideal FCT differs: slowdowns then compare with another ideal.
	IdealChanged int64               `json:"flows_with_another_ideal"`
	Services     []ServiceComparison `json:"services"`
	Rows         []ComparisonRow     `json:"percentiles"`
	TailFlows    int64               `json:"tail_flows"`
	Links        []LinkDifference    `json:"links"`
	Gates        []gate.Verdict      `json:"gates,omitempty"`
	// Changed are the cables that a what-if changes.
	Changed []scenario.CableChange `json:"changed_cables,omitempty"`

	by     []string
	joined *join
}

// ComparisonRow compares one quantile of the slowdowns of one group of flows, those in both.
type ComparisonRow struct {
	Group    []string `json:"group"` // a value for each of ComparisonGroups, or all
	Flows    int64    `json:"flows"`
	Quantile float64  `json:"quantile"`
	Base     float64  `json:"base"`
	Other    float64  `json:"other"`
	Change   float64  `json:"change"`    // Other / Base - 1
	Lo       float64  `json:"change_lo"` // its 95% bootstrap interval, flows drawn in pairs
	Hi       float64  `json:"change_hi"`

	BaseFCT   float64 `json:"base_fct_ms"` // the same quantile of the FCTs
	OtherFCT  float64 `json:"other_fct_ms"`
	FCTChange float64 `json:"fct_change"`
	FCTLo     float64 `json:"fct_change_lo"`
	FCTHi     float64 `json:"fct_change_hi"`
}

// A ServiceComparison has the percentiles of one service's flows that are in both, or of all flows (AllFlows).
type ServiceComparison struct {
	Service string             `json:"service"`
	Flows   int64              `json:"flows"`
	Base    ServicePercentiles `json:"base"`
	Other   ServicePercentiles `json:"other"`
}

// mostServices is how many services, those with the most flows, a comparison that is asked for no groups has.
const mostServices = 64

// LinkDifference says what a link adds to the tail's flows in either, a mean over them.
type LinkDifference struct {
	Link        int32   `json:"link_id"`
	Src         string  `json:"src"`
	Dst         string  `json:"dst"`
	Tier        string  `json:"tier"`
	BaseLoad    float64 `json:"base_load"`
	Load        float64 `json:"load"`
	BaseDelayNS float64 `json:"base_delay_ns"`
	DelayNS     float64 `json:"delay_ns"`
}

// ErrDifferentWays is wrapped by the refusal to compare estimates that were made in different ways.
var ErrDifferentWays = errors.New("estimated in different ways")

// Compare holds two estimates of a lake against each other, flow by flow: a flow is in both if its id, size and start
// are. Where a side names no variant, it is the one that both have; of several, that of estimator exact, or else of
// flow with two passes. The comparison also goes to tables comparisons and comparison_links of the other scenario.
func Compare(ctx context.Context, l *lake.Lake, base, other Side, o CompareOptions) (*Comparison, error) {
	for _, g := range o.By {
		if !slices.Contains(ComparisonGroups(), g) {
			return nil, fmt.Errorf("flows cannot be grouped by %q, but by %s", g, strings.Join(ComparisonGroups(), ", "))
		}
	}
	for _, side := range []*Side{&base, &other} {
		if side.Scenario == "" {
			return nil, errors.New("name both scenarios")
		}
		id, err := pipeline.Resolve(l, side.Scenario)
		if err != nil {
			return nil, err
		}
		side.Scenario = string(id)
	}
	if err := chooseVariants(l, &base, &other); err != nil {
		return nil, err
	}
	if base == other {
		return nil, fmt.Errorf("scenario %s, variant %s, is compared with itself", base.Scenario, base.Variant)
	}
	if !o.Across && base.Variant != other.Variant {
		return nil, fmt.Errorf("%s as %s and %s as %s: %w (--across compares them all the same)", base.Scenario, base.Variant, other.Scenario, other.Variant, ErrDifferentWays)
	}
	c := &Comparison{Base: base, Other: other, by: o.By, Changed: o.changed}
	reading := l.LockForReading()
	defer reading.Close()
	j, err := openJoin(l, base, other)
	if err != nil {
		return nil, err
	}
	c.BaseName, c.OtherName, c.joined = j.base.Spec.Name, j.other.Spec.Name, j
	if err := c.percentiles(ctx, j, cmp.Or(o.MemoryBytes, pipeline.DefaultMemory)); err != nil {
		return nil, fmt.Errorf("comparing %s with %s: %w", other.Scenario, base.Scenario, err)
	}
	if c.Both == 0 {
		return nil, fmt.Errorf("scenarios %s and %s have no flow in common", base.Scenario, other.Scenario)
	}
	if err := c.links(ctx, j, o.Links); err != nil {
		return nil, fmt.Errorf("comparing %s with %s by link: %w", other.Scenario, base.Scenario, err)
	}
	return c, c.write(ctx, l)
}

// chooseVariants fills in what estimates are meant.
func chooseVariants(l *lake.Lake, base, other *Side) error {
	have := map[*Side][]string{}
	for _, side := range []*Side{base, other} {
		s, err := pipeline.ReadScenarioStatus(l, lake.ScenarioID(side.Scenario), false)
		if err != nil {
			return err
		}
		if s.State == pipeline.StateDamaged {
			return fmt.Errorf("scenario %s is damaged: run it again", side.Scenario)
		}
		if have[side] = s.Variants; len(s.Variants) == 0 {
			return fmt.Errorf("scenario %s is not estimated: run it", side.Scenario)
		}
		if side.Variant != "" && !slices.Contains(s.Variants, side.Variant) {
			return fmt.Errorf("scenario %s has no estimate %q; it has %s", side.Scenario, side.Variant, strings.Join(s.Variants, ", "))
		}
	}
	switch {
	case base.Variant != "" && other.Variant != "":
		return nil
	case base.Variant != "" && slices.Contains(have[other], base.Variant):
		other.Variant = base.Variant
		return nil
	case other.Variant != "" && slices.Contains(have[base], other.Variant):
		base.Variant = other.Variant
		return nil
	}
	var common []string
	for _, v := range have[base] {
		if slices.Contains(have[other], v) {
			common = append(common, v)
		}
	}
	for _, usual := range []pipeline.Variant{{Estimator: stages.WholeNetwork},
		{Estimator: stages.Flow, Passes: pipeline.MaxPasses}} {
		if slices.Contains(common, usual.String()) {
			common = []string{usual.String()}
			break
		}
	}
	switch {
	case len(common) == 1:
		base.Variant, other.Variant = common[0], common[0]
	case len(common) > 1:
		return fmt.Errorf("scenarios %s and %s have several estimates in common, say which as ID@VARIANT: %s", base.Scenario, other.Scenario, strings.Join(common, ", "))
	case len(have[base]) == 1 && len(have[other]) == 1:
		base.Variant, other.Variant = have[base][0], have[other][0] // refused, or compared across
	default:
		return fmt.Errorf("scenarios %s (%s) and %s (%s) have no way of estimating in common: run one of them another way", base.Scenario, strings.Join(have[base], ", "), other.Scenario, strings.Join(have[other], ", "))
	}
	return nil
}

// A compared is a group of flows that are in both: their slowdowns and their FCTs in ms.
type compared struct{ slowdowns, fcts sample }

func (g *compared) add(p *pair) {
	g.slowdowns.add(p.row, p.other, p.base)
	g.fcts.estimate = append(g.fcts.estimate, float64(p.otherFCT)/1e6)
	g.fcts.tru = append(g.fcts.tru, float64(p.baseFCT)/1e6)
}

// rows are those of table comparisons.
func (g *compared) rows(key [4]string) (out []ComparisonRow) {
	g.fcts.rows = g.slowdowns.rows
	fcts := g.fcts.compare()
	for i, v := range g.slowdowns.compare() {
		f := fcts[i]
		out = append(out, ComparisonRow{key[:], v.Flows, v.Quantile, v.True, v.Estimate, v.Error, v.ErrorLo, v.ErrorHi,
			f.True, f.Estimate, f.Error, f.ErrorLo, f.ErrorHi})
	}
	return out
}

// percentiles fills in the rows. It holds 40 bytes for each flow and group it is in, and fails if that is more than the
// memory limit.
func (c *Comparison) percentiles(ctx context.Context, j *join, memoryBytes int64) error {
	c.BaseFlows, c.Flows = j.flows()
	const bytesPerFlow = 128 // values, ranks and weights of the bootstrap, of all flows and of groups
	if need := bytesPerFlow * min(c.BaseFlows, c.Flows); need > memoryBytes {
		return fmt.Errorf("needs about %s bytes of memory, the limit is %s: raise --memory-limit", units.Human(float64(need)), units.Human(float64(memoryBytes)))
	}
	all, groups, by := &compared{}, map[[4]string]*compared{}, c.by
	if len(by) == 0 {
		by = []string{"service"}
	}
	err := j.each(ctx, func(p *pair) {
		all.add(p)
		if p.baseIdeal != p.otherIdeal {
			c.IdealChanged++
		}
		key := [4]string{AllFlows, AllFlows, AllFlows, AllFlows}
		for i, value := range []string{p.service, p.vnet, sizeBin(p.sizeBytes), strconv.Itoa(int(p.hops))} {
			if slices.Contains(by, ComparisonGroups()[i]) {
				key[i] = value
			}
		}
		if groups[key] == nil {
			for i := range key {
				key[i] = strings.Clone(key[i]) // a batch's memory is used again
			}
			groups[key] = &compared{}
		}
		groups[key].add(p)
	})
	if err != nil {
		return err
	}
	if c.Both = int64(len(all.fcts.tru)); c.Both == 0 {
		return nil
	}
	keys := c.keys(groups)
	for _, k := range keys {
		rows := groups[k].rows(k)
		if len(c.by) > 0 || len(keys) > 1 {
			c.Rows = append(c.Rows, rows...)
		}
		if k[0] != AllFlows && k[1] == AllFlows && k[2] == AllFlows && k[3] == AllFlows {
			c.Services = append(c.Services, serviceComparison(k[0], rows))
		}
	}
	whole := all.rows([4]string{AllFlows, AllFlows, AllFlows, AllFlows})
	c.Rows, c.Services = append(c.Rows, whole...), append(c.Services, serviceComparison(AllFlows, whole))
	return nil
}

// serviceComparison has the values of a group's rows.
func serviceComparison(service string, rows []ComparisonRow) ServiceComparison {
	s := ServiceComparison{Service: service, Flows: rows[0].Flows}
	s.Base.Flows, s.Other.Flows = s.Flows, s.Flows
	for _, r := range rows {
		s.Base.Slowdowns, s.Other.Slowdowns = append(s.Base.Slowdowns, r.Base), append(s.Other.Slowdowns, r.Other)
		s.Base.FCTMS, s.Other.FCTMS = append(s.Base.FCTMS, r.BaseFCT), append(s.Other.FCTMS, r.OtherFCT)
	}
	return s
}

// keys are the groups to compare, in order: all if they were asked for, else the services with the most flows.
func (c *Comparison) keys(groups map[[4]string]*compared) [][4]string {
	keys := slices.Collect(maps.Keys(groups))
	if len(c.by) == 0 {
		slices.SortFunc(keys, func(a, b [4]string) int {
			return cmp.Or(cmp.Compare(len(groups[b].fcts.tru), len(groups[a].fcts.tru)), strings.Compare(a[0], b[0]))
		})
		keys = keys[:min(mostServices, len(keys))]
	}
	slices.SortFunc(keys, func(a, b [4]string) int {
		return cmp.Or(slices.Compare(a[:2], b[:2]), cmp.Compare(binOrder(a[2]), binOrder(b[2])),
			cmp.Compare(len(a[3]), len(b[3])), strings.Compare(a[3], b[3]))
	})
	return keys
}

// Value is the value of a gate: a quantile of the slowdowns, or of the FCTs in ms, of the flows that are in both and
// that it selects, in the other scenario, or its change.
func (c *Comparison) Value(ctx context.Context, g gate.Gate) (float64, error) {
	s := &sample{}
	err := c.joined.each(ctx, func(p *pair) {
		of := map[string]string{"service": p.service, "vnet": p.vnet, "size_bin": sizeBin(p.sizeBytes)}
		for column, value := range g.Filter {
			if of[column] != value {
				return
			}
		}
		if g.FCT {
			s.add(p.row, float64(p.otherFCT)/1e6, float64(p.baseFCT)/1e6)
		} else {
			s.add(p.row, p.other, p.base)
		}
	})
	if err != nil {
		return 0, err
	}
	if len(s.rows) == 0 {
		return 0, errors.New("no flow that is in both is selected")
	}
	other := quantileOf(s.estimate, ranked(s.estimate), g.Quantile)
	if !g.Change {
		return other, nil
	}
	return other/quantileOf(s.tru, ranked(s.tru), g.Quantile) - 1, nil
}

// sizeBin names a flow's size bin.
func sizeBin(sizeBytes int64) string {
	bins := sizebin.Bins()
	return bins[slices.IndexFunc(bins, func(b sizebin.Bin) bool { return sizeBytes <= b.MaxBytes })].Name
}

// binOrder is the place of a size bin in the order of sizes.
func binOrder(name string) int {
	return slices.IndexFunc(sizebin.Bins(), func(b sizebin.Bin) bool { return b.Name == name })
}

// links finds where the flows of the tail, those above the p99 of either side, are delayed more or less.
func (c *Comparison) links(ctx context.Context, j *join, most int) error {
	last := c.Rows[len(c.Rows)-len(pipeline.Quantiles):] // all flows
	p99 := last[slices.Index(pipeline.Quantiles, 0.99)]
	var baseRows, otherRows []int64
	err := j.each(ctx, func(p *pair) {
		if p.base > p99.Base || p.other > p99.Other {
			baseRows, otherRows = append(baseRows, p.row), append(otherRows, p.otherRow)
		}
	})
	if err != nil {
		return err
	}
	c.TailFlows = int64(len(baseRows))
	before, err := tailDelays(ctx, j.base, baseRows)
	if err != nil {
		return err
	}
	after, err := tailDelays(ctx, j.other, otherRows)
	if err != nil {
		return err
	}
	loadBefore, err := linkLoads(j.base)
	if err != nil {
		return err
	}
	loadAfter, err := linkLoads(j.other)
	if err != nil {
		return err
	}
	n := j.other.Network
	if len(j.base.Network.Links) > len(n.Links) {
		n = j.base.Network
	}
	before, loadBefore = padded(before, len(n.Links)), padded(loadBefore, len(n.Links)) // cables were added
	after, loadAfter = padded(after, len(n.Links)), padded(loadAfter, len(n.Links))
	for _, link := range n.Links {
		if before[link.ID] == after[link.ID] {
			continue
		}
		src, _ := n.Node(link.Src)
		dst, _ := n.Node(link.Dst)
		c.Links = append(c.Links, LinkDifference{
			Link: link.ID, Src: src.Name, Dst: dst.Name, Tier: link.Tier, BaseLoad: loadBefore[link.ID],
			Load:        loadAfter[link.ID],
			BaseDelayNS: before[link.ID], DelayNS: after[link.ID],
		})
	}
	slices.SortFunc(c.Links, func(a, b LinkDifference) int {
		return cmp.Or(cmp.Compare(math.Abs(b.DelayNS-b.BaseDelayNS), math.Abs(a.DelayNS-a.BaseDelayNS)),
			cmp.Compare(a.Link, b.Link))
	})
	c.Links = c.Links[:min(most, len(c.Links))]
	for i := range c.Links {
		c.Links[i].BaseDelayNS /= float64(c.TailFlows)
		c.Links[i].DelayNS /= float64(c.TailFlows)
	}
	return nil
}

// padded adds zeros for links that only the other scenario has.
func padded(perLink []float64, links int) []float64 {
	return append(perLink, make([]float64, max(0, links-len(perLink)))...)
}
