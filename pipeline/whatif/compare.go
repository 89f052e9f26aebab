package whatif

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/schema/units"
	"parsimon/stages"
	"parsimon/stages/topology"
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
	Jobs         []JobComparison     `json:"jobs,omitempty"` // if flows wait for others
	Gates        []gate.Verdict      `json:"gates,omitempty"`
	Warnings     []string            `json:"warnings,omitempty"` // of what a what-if has changed
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
	var err error
	if c.joined, err = openJoin(l, base, other); err != nil {
		return nil, err
	}
	c.BaseName, c.OtherName = c.joined.base.Spec.Name, c.joined.other.Spec.Name
	c.BaseFlows, c.Flows = c.joined.base.flows, c.joined.other.flows
	session, err := l.Lock(ctx, lake.Of(lake.ScenarioID(other.Scenario)))
	if err != nil {
		return nil, err
	}
	defer session.Close()
	if err := c.compare(ctx, session, cmp.Or(o.MemoryBytes, pipeline.DefaultMemory), o.Links); err != nil {
		return nil, fmt.Errorf("comparing %s with %s: %w", other.Scenario, base.Scenario, err)
	}
	before, err := summary.Jobs(ctx, c.joined.base.Estimation)
	if err != nil {
		return nil, err
	}
	after, err := summary.Jobs(ctx, c.joined.other.Estimation)
	if err != nil {
		return nil, err
	}
	c.Jobs = compareJobs(before, after)
	return c, c.write(session)
}

// compare fills in rows and links. It holds 128 bytes for each flow that is in both, values, ranks and weights of the
// bootstrap, and fails if that is more than the memory limit.
func (c *Comparison) compare(ctx context.Context, session *lake.Session, memoryBytes int64, links int) error {
	need := 128 * min(c.BaseFlows, c.Flows)
	if need > memoryBytes {
		return fmt.Errorf("needs about %s bytes of memory, the limit is %s: raise --memory-limit",
			units.Human(float64(need)), units.Human(float64(memoryBytes)))
	}
	db, err := duckdb.Open(ctx, duckdb.Options{MemoryBytes: max(128<<20, memoryBytes-need),
		SpillDir: filepath.Join(session.TmpPath(), "duckdb")})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing was written
	if err := c.percentiles(ctx, db, filepath.Join(session.TmpPath(), "pairs.parquet")); err != nil {
		return err
	}
	if c.Both == 0 {
		return errors.New("they have no flow in common")
	}
	last := c.Rows[len(c.Rows)-len(pipeline.Quantiles):] // all flows
	return c.findLinks(ctx, db, last[slices.Index(pipeline.Quantiles, 0.99)], links)
}

// chooseVariants fills in what estimates are meant: that which one side names, or that which both have.
func chooseVariants(l *lake.Lake, base, other *Side) error {
	var have [2][]string
	for i, side := range []*Side{base, other} {
		s, err := pipeline.ReadScenarioStatus(l, lake.ScenarioID(side.Scenario), false)
		switch {
		case err != nil:
			return err
		case s.State == pipeline.StateDamaged:
			return fmt.Errorf("scenario %s is damaged: run it again", side.Scenario)
		case len(s.Variants) == 0:
			return fmt.Errorf("scenario %s is not estimated: run it", side.Scenario)
		case side.Variant != "" && !slices.Contains(s.Variants, side.Variant):
			return fmt.Errorf("scenario %s has no estimate %q; it has %s", side.Scenario, side.Variant,
				strings.Join(s.Variants, ", "))
		}
		have[i] = s.Variants
	}
	if base.Variant != "" && other.Variant != "" {
		return nil
	}
	common := slices.DeleteFunc(slices.Clone(have[0]), func(v string) bool { return !slices.Contains(have[1], v) })
	for _, usual := range []string{base.Variant, other.Variant, pipeline.Variant{Estimator: stages.WholeNetwork}.String(),
		pipeline.Variant{Estimator: stages.Flow, Passes: pipeline.MaxPasses}.String()} {
		if slices.Contains(common, usual) {
			common = []string{usual}
		}
	}
	switch {
	case len(common) == 1:
		base.Variant, other.Variant = common[0], common[0]
	case len(common) > 1:
		return fmt.Errorf("scenarios %s and %s have several estimates in common, say which as ID@VARIANT: %s",
			base.Scenario, other.Scenario, strings.Join(common, ", "))
	case len(have[0]) == 1 && len(have[1]) == 1:
		base.Variant, other.Variant = have[0][0], have[1][0] // refused, or compared across
	default:
		return fmt.Errorf("scenarios %s (%s) and %s (%s) have no way of estimating in common: run one of them another way",
			base.Scenario, strings.Join(have[0], ", "), other.Scenario, strings.Join(have[1], ", "))
	}
	return nil
}

// A compared is a group of flows that are in both: their slowdowns and their FCTs in ms.
type compared struct{ slowdowns, fcts sample }

func (g *compared) add(p *pair) {
	g.slowdowns.add(p.Row, p.Other, p.Base)
	g.fcts.add(p.Row, p.OtherFCT, p.BaseFCT)
}

// rows are those of table comparisons, and the values of a service.
func (g *compared) rows(key [4]string) (out []ComparisonRow, s ServiceComparison) {
	fcts := g.fcts.compare()
	var base, other, baseFCT, otherFCT []float64
	for i, v := range g.slowdowns.compare() {
		f := fcts[i]
		out = append(out, ComparisonRow{key[:], v.Flows, v.Quantile, v.True, v.Estimate, v.Error, v.ErrorLo, v.ErrorHi,
			f.True, f.Estimate, f.Error, f.ErrorLo, f.ErrorHi})
		base, other = append(base, v.True), append(other, v.Estimate)
		baseFCT, otherFCT = append(baseFCT, f.True), append(otherFCT, f.Estimate)
	}
	n := out[0].Flows
	return out, ServiceComparison{key[0], n, newPercentiles(n, base, baseFCT), newPercentiles(n, other, otherFCT)}
}

// percentiles fills in the rows.
func (c *Comparison) percentiles(ctx context.Context, db *sql.DB, file string) error {
	all, groups, by := &compared{}, map[[4]string]*compared{}, c.by
	if len(by) == 0 {
		by = []string{"service"}
	}
	var grouped [4]bool
	for i, g := range ComparisonGroups() {
		grouped[i] = slices.Contains(by, g)
	}
	err := eachRow(ctx, db, file, pairTable, c.joined.sql(), func(p *pair) error {
		all.add(p)
		c.IdealChanged += p.Ideal
		key := [4]string{AllFlows, AllFlows, AllFlows, AllFlows}
		for g, group := range []string{p.Service, p.VNet, p.SizeBin, p.Hops} {
			if grouped[g] {
				key[g] = group
			}
		}
		if groups[key] == nil {
			for g := range key {
				key[g] = strings.Clone(key[g]) // a batch's memory is used again
			}
			groups[key] = &compared{}
		}
		groups[key].add(p)
		return ctx.Err()
	})
	if c.Both = int64(len(all.fcts.tru)); err != nil || c.Both == 0 {
		return err
	}
	keys := c.keys(groups)
	for _, k := range keys {
		rows, service := groups[k].rows(k)
		if len(c.by) > 0 || len(keys) > 1 {
			c.Rows = append(c.Rows, rows...)
		}
		if k[0] != AllFlows && k[1] == AllFlows && k[2] == AllFlows && k[3] == AllFlows {
			c.Services = append(c.Services, service)
		}
	}
	rows, service := all.rows([4]string{AllFlows, AllFlows, AllFlows, AllFlows})
	c.Rows, c.Services = append(c.Rows, rows...), append(c.Services, service)
	return nil
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

// binOrder is the place of a size bin in the order of sizes.
func binOrder(name string) int {
	return slices.IndexFunc(sizebin.Bins(), func(b sizebin.Bin) bool { return b.Name == name })
}

// Value is the value of a gate: a quantile of the slowdowns, or of the FCTs in ms, of the flows that are in both and
// that it selects, in the other scenario, or its change.
func (c *Comparison) Value(ctx context.Context, g gate.Gate) (float64, error) {
	db, err := duckdb.Open(ctx, duckdb.Options{MemoryBytes: pipeline.DefaultMemory})
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	base, other := "base", "other"
	if g.FCT {
		base, other = "base_fct_ms", "other_fct_ms"
	}
	where := "true"
	for _, column := range slices.Sorted(maps.Keys(g.Filter)) {
		where += fmt.Sprintf(" AND %s = %s", column, duckdb.Quote(g.Filter[column]))
	}
	var before, after sql.NullFloat64
	err = db.QueryRowContext(ctx, fmt.Sprintf("SELECT quantile_cont(%s, %v), quantile_cont(%s, %v) FROM (%s) WHERE %s",
		base, g.Quantile, other, g.Quantile, c.joined.sql(), where)).Scan(&before, &after)
	switch {
	case err != nil:
		return 0, duckdb.FirstLine(err)
	case !before.Valid:
		return 0, errors.New("no flow that is in both is selected")
	case g.Change:
		return after.Float64/before.Float64 - 1, nil
	}
	return after.Float64, nil
}

// write puts the comparison into the lake.
func (c *Comparison) write(session *lake.Session) error {
	at := lake.Place{Scenario: lake.ScenarioID(c.Other.Scenario), Variant: c.Other.Variant}
	name := c.Base.Scenario + "-" + c.Base.Variant
	rows := columns.NewRows(schema.Comparisons)
	for _, r := range c.Rows {
		row := columns.Row{
			"base_scenario": c.Base.Scenario, "base_variant": c.Base.Variant, "flows": r.Flows, "quantile": r.Quantile,
			"base_slowdown": r.Base, "slowdown": r.Other, "change": r.Change, "change_lo": r.Lo, "change_hi": r.Hi,
			"base_fct_ns": r.BaseFCT * 1e6, "fct_ns": r.OtherFCT * 1e6, "fct_change": r.FCTChange,
			"fct_change_lo": r.FCTLo, "fct_change_hi": r.FCTHi,
		}
		for i, group := range ComparisonGroups() {
			row[group] = r.Group[i]
		}
		rows.Add(row)
	}
	links := columns.NewRows(schema.ComparisonLinks)
	for i, d := range c.Links {
		links.Add(columns.Row{
			"base_scenario": c.Base.Scenario, "base_variant": c.Base.Variant, "place": int64(i + 1), "link_id": d.Link,
			"tail_flows": c.TailFlows, "base_load": d.BaseLoad, "load": d.Load,
			"base_delay_ns": d.BaseDelayNS, "delay_ns": d.DelayNS,
		})
	}
	return session.PublishRows(at, name, rows, links)
}

// Text is the comparison for people. Where the ideal FCT of flows differs, the FCTs come first.
func (c *Comparison) Text() *text.Answer {
	a := &text.Answer{}
	a.Linef("base  %s (%s), variant %s", c.Base.Scenario, c.BaseName, c.Base.Variant)
	a.Linef("other %s (%s), variant %s", c.Other.Scenario, c.OtherName, c.Other.Variant)
	a.Linef("%d flows are in both (of %d and %d); changes with their 95%% bootstrap intervals", c.Both, c.BaseFlows,
		c.Flows)
	if n := len(c.Changed); n > 0 {
		a.Linef("%s changed: %s", topology.Count(n, "cable"), changedCables(c.Changed))
	}
	if c.IdealChanged > 0 {
		a.Linef("The ideal FCT of %d of these flows differs, because bandwidth, delay or length of their paths does. Their "+
			"slowdown is relative to another ideal: compare the FCTs.", c.IdealChanged)
	}
	c.addJobs(a)
	a.Linef("")
	by := c.by
	if len(by) == 0 && len(c.Services) > 1 {
		by = []string{"service"}
	}
	head := slices.DeleteFunc(ComparisonGroups(), func(g string) bool { return !slices.Contains(by, g) })
	fct := []string{"base_fct_ms", "fct_ms", "fct_change", "fct_change_lo", "fct_change_hi"}
	slowdown := []string{"base_slowdown", "slowdown", "change", "change_lo", "change_hi"}
	first, second := slowdown, fct[:3]
	if c.IdealChanged > 0 {
		first, second = fct, slowdown[:3]
	}
	table := a.Table(slices.Concat(head, []string{"flows", "quantile"}, first, second)...)
	for _, r := range c.Rows {
		var row []any
		for i, g := range ComparisonGroups() {
			if slices.Contains(by, g) {
				row = append(row, r.Group[i])
			}
		}
		row = append(row, r.Flows, r.Quantile)
		fct := []any{text.Figure(r.BaseFCT), text.Figure(r.OtherFCT), text.Percent(r.FCTChange), text.Percent(r.FCTLo),
			text.Percent(r.FCTHi)}
		slowdown := []any{text.Figure(r.Base), text.Figure(r.Other), text.Percent(r.Change), text.Percent(r.Lo),
			text.Percent(r.Hi)}
		if c.IdealChanged > 0 {
			table.Add(slices.Concat(row, fct, slowdown[:3])...)
		} else {
			table.Add(slices.Concat(row, slowdown, fct[:3])...)
		}
	}
	if len(c.Links) > 0 {
		a.Linef("\nLinks that explain it: mean delay there of the %d flows above the p99 slowdown of either", c.TailFlows)
		table := a.Table("link_id", "link", "tier", "base_load", "load", "base_delay_ns", "delay_ns", "difference_ns")
		for _, d := range c.Links {
			table.Add(d.Link, d.Src+" → "+d.Dst, d.Tier, d.BaseLoad, d.Load, d.BaseDelayNS, d.DelayNS, d.DelayNS-d.BaseDelayNS)
		}
	}
	return a
}

// changedCables lists the first cables that a what-if changes.
func changedCables(changed []scenario.CableChange) string {
	var all []string
	for _, cable := range changed {
		all = append(all, cable.String())
	}
	return topology.Listed(all, 8) // --format json has all
}
