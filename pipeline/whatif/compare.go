package whatif

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/schema/sizebin"
	"parsimon/schema/units"
	"parsimon/stages/confidence"
	"parsimon/stages/estimators"
	"parsimon/stages/topology"
)

// A Side is one of the two estimates of a comparison. Compare fills in the missing fields.
type Side struct {
	Scenario string          `json:"scenario_id"`
	Variant  string          `json:"variant"` // empty: see Compare
	model    *pipeline.Model // nil: not open yet
}

// CompareOptions are the options of a comparison.
type CompareOptions struct {
	// By groups the flows by columns of ComparisonGroups. If it is empty, all flows form one group.
	By []string
	// Across allows comparing estimates that were made with different variants. The difference then also
	// includes the difference between the variants.
	Across bool
	// Links is the number of links to list as an explanation.
	Links int
	// MemoryBytes is the memory limit of the comparison; 0: pipeline.DefaultMemory.
	MemoryBytes int64

	ofChange bool                   // Other is the estimate of a what-if
	changed  []scenario.CableChange // the cables that the what-if changes
}

// ComparisonGroups lists the columns by which flows can be grouped.
func ComparisonGroups() []string { return []string{"service", "vnet", "size_bin", "hops"} }

// A Comparison compares two estimates.
type Comparison struct {
	Base      Side   `json:"base"` // ids and variants
	Other     Side   `json:"other"`
	BaseName  string `json:"base_name"`
	OtherName string `json:"other_name"`
	BaseFlows int64  `json:"base_flows"`
	Flows     int64  `json:"flows"`
	// 0: the flows are not paired, and percentiles include all flows of each estimate.
	Both int64 `json:"flows_in_both"`
	// IdealChanged is the number of flows in both estimates whose ideal FCT differs. Their slowdowns are
	// relative to different ideals.
	IdealChanged int64 `json:"flows_with_another_ideal"`
	// The number of flows without a path, and thus without an estimate, in each estimate, and the settings of
	// the simulation that differ.
	BaseUnreachable int64    `json:"base_unreachable"`
	Unreachable     int64    `json:"unreachable"`
	Differ          []string `json:"different_settings,omitempty"`
	// Scaled lists the services for which the numbers of estimated flows differ.
	Scaled    []string            `json:"scaled,omitempty"`
	Services  []ServiceComparison `json:"services"`
	Rows      []ComparisonRow     `json:"percentiles"`
	TailFlows int64               `json:"tail_flows"`
	Links     []LinkDifference    `json:"links"`
	Jobs      []JobComparison     `json:"jobs,omitempty"` // if flows wait for others
	Gates     []gate.Verdict      `json:"gates,omitempty"`
	Warnings  []string            `json:"warnings,omitempty"` // about the changes of a what-if
	// Changed lists the cables that a what-if changes.
	Changed []scenario.CableChange `json:"changed_cables,omitempty"`

	by     []string
	joined *join
}

// ComparisonRow compares one quantile of the slowdowns of one group of flows. It includes the flows that are
// in both estimates, or all flows if there are none.
type ComparisonRow struct {
	Group    []string `json:"group"` // a value for each of ComparisonGroups, or "all"
	Flows    int64    `json:"flows"` // of Other
	Quantile float64  `json:"quantile"`
	Base     float64  `json:"base"`
	Other    float64  `json:"other"`
	Change   float64  `json:"change"` // Other / Base - 1
	// 95% bootstrap interval of Change; flows in both estimates are drawn in pairs.
	Lo float64 `json:"change_lo"`
	Hi float64 `json:"change_hi"`

	BaseFCT   float64 `json:"base_fct_ms"` // the same quantile of the FCTs
	OtherFCT  float64 `json:"other_fct_ms"`
	FCTChange float64 `json:"fct_change"`
	FCTLo     float64 `json:"fct_change_lo"`
	FCTHi     float64 `json:"fct_change_hi"`
}

// A ServiceComparison has the percentiles of the flows of one service, or of all flows (AllFlows). It
// includes only flows that are in both estimates.
type ServiceComparison struct {
	Service string             `json:"service"`
	Flows   int64              `json:"flows"`
	Base    ServicePercentiles `json:"base"`
	Other   ServicePercentiles `json:"other"`
}

// differences returns the names of the simulation settings that differ.
func differences(base, other *pipeline.Spec) (out []string) {
	b := base.Params
	o := other.Params
	b.Seed = 0
	o.Seed = 0
	if b.Transport != o.Transport {
		out = append(out, fmt.Sprintf("transport (%v, in the base %v)", o.Transport, b.Transport))
	} else if !reflect.DeepEqual(b, o) {
		out = append(out, "settings of the transport")
	}
	if base.Switches != other.Switches {
		out = append(out, "buffers of switches")
	}
	if !reflect.DeepEqual(base.Classes, other.Classes) {
		out = append(out, "traffic classes")
	}
	return out
}

// mostServices is the maximum number of services in a comparison without requested groups. The services with
// the most flows are included.
const mostServices = 64

// ErrDifferentWays is wrapped by the error that Compare returns for estimates that were made with different
// variants.
var ErrDifferentWays = errors.New("estimated in different ways")

// Compare compares two estimates of a lake flow by flow. A flow is in both estimates if its id, size and
// start are the same. If no flow is in both, Compare compares the percentiles of all flows of each estimate.
// If a side names no variant, Compare uses the variant that both scenarios have. If they share several, it
// prefers estimator exact, then flow with two passes. It also writes the comparison to tables comparisons and
// comparison_links of the other scenario.
func Compare(ctx context.Context, l *lake.Lake, base, other Side, o CompareOptions) (*Comparison, error) {
	for _, g := range o.By {
		if !slices.Contains(ComparisonGroups(), g) {
			return nil, fmt.Errorf("flows cannot be grouped by %q, but by %s", g,
				strings.Join(ComparisonGroups(), ", "))
		}
	}
	if err := chooseVariants(l, &base, &other); err != nil {
		return nil, err
	}
	if base == other {
		return nil, fmt.Errorf("scenario %s, variant %s, is compared with itself", base.Scenario, base.Variant)
	}
	if !o.Across && base.Variant != other.Variant {
		return nil, fmt.Errorf("%s as %s and %s as %s: %w (--across compares them all the same)", base.Scenario,
			base.Variant, other.Scenario, other.Variant, ErrDifferentWays)
	}
	c := &Comparison{Base: base, Other: other, by: o.By, Changed: o.changed}
	reading := l.LockForReading()
	defer reading.Close()
	var err error
	if c.joined, err = openJoin(ctx, l, base, other); err != nil {
		return nil, err
	}
	c.BaseName = c.joined.base.Spec.Name
	c.OtherName = c.joined.other.Spec.Name
	c.BaseFlows = c.joined.base.flows
	c.Flows = c.joined.other.flows
	c.Differ = differences(&c.joined.base.Spec, &c.joined.other.Spec)
	var failed error
	c.BaseUnreachable, _, err = c.joined.base.Unreachable()
	c.Unreachable, _, failed = c.joined.other.Unreachable()
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	session, err := l.Lock(ctx, lake.Of(lake.ScenarioID(other.Scenario)))
	if err != nil {
		return nil, err
	}
	defer session.Close()
	if err := c.joined.other.confirm(); err != nil {
		return nil, err
	}
	if err := c.compare(ctx, session, cmp.Or(o.MemoryBytes, pipeline.DefaultMemory), o.Links); err != nil {
		return nil, fmt.Errorf("comparing %s with %s: %w", other.Scenario, base.Scenario, err)
	}
	if err := c.addAnswers(ctx, o.ofChange); err != nil {
		return nil, err
	}
	return c, c.write(session)
}

// addAnswers adds the times of jobs, if flows wait for others, and the warnings about a change.
func (c *Comparison) addAnswers(ctx context.Context, ofChange bool) (err error) {
	if !c.joined.byRow && !ofChange {
		return nil
	}
	base := c.joined.base.Estimation
	other := c.joined.other.Estimation
	db, err := other.OpenQueries(ctx, base.ID())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	before, err := summary.Jobs(ctx, db, base)
	if err != nil {
		return err
	}
	after, err := summary.Jobs(ctx, db, other)
	if err != nil {
		return err
	}
	c.Jobs = compareJobs(before, after)
	if !ofChange {
		return nil
	}
	shared, err := summary.SharedHosts(ctx, db, other, base.ID())
	if err != nil {
		return err
	}
	warnings, err := summary.Warnings(other)
	c.Warnings = append(shared, warnings...)
	return err
}

// compare fills in the rows and the links. It needs 160 bytes for each flow that is in both estimates, or for
// each flow if none is: values, ranks and weights of the bootstrap. It returns an error if this exceeds the
// memory limit.
func (c *Comparison) compare(ctx context.Context, session *lake.Session, memoryBytes int64, links int) error {
	need := 160 * min(c.BaseFlows, c.Flows)
	c.Links = []LinkDifference{}
	if c.joined.unpaired {
		need = 160 * (c.BaseFlows + c.Flows)
	}
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
	switch {
	case c.joined.unpaired && len(c.Rows) == 0:
		return errors.New("one of them has no flow with an estimate")
	case !c.joined.unpaired && c.Both == 0:
		c.joined.unpaired = true
		return errors.Join(db.Close(), c.compare(ctx, session, memoryBytes, links))
	}
	if !c.joined.unpaired && c.BaseFlows != c.Flows {
		err := duckdb.Each(ctx, db, queries.Known("scaled").SQL, func(rows *sql.Rows) error {
			c.Scaled = append(c.Scaled, "")
			return rows.Scan(&c.Scaled[len(c.Scaled)-1])
		})
		if err != nil {
			return err
		}
	}
	last := c.Rows[len(c.Rows)-len(pipeline.Quantiles):] // all flows
	return c.findLinks(ctx, db, last[slices.Index(pipeline.Quantiles, 0.99)], links)
}

// chooseVariants chooses the variants to compare: the variant that one side names, or a variant that both
// scenarios have.
func chooseVariants(l *lake.Lake, base, other *Side) error {
	var have [2][]string
	for i, side := range []*Side{base, other} {
		s, err := pipeline.ReadScenarioStatus(l, lake.ScenarioID(side.Scenario), lake.BySize)
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
		if base.Scenario == other.Scenario {
			side.Variant = cmp.Or(side.Variant, l.Answer(lake.ScenarioID(side.Scenario)).String())
		}
	}
	if *base == *other && base.Variant != "" {
		return fmt.Errorf("scenario %s, variant %s, is compared with itself (SCENARIO@VARIANT names another: %s)",
			base.Scenario, base.Variant, strings.Join(have[0], ", "))
	}
	if base.Variant != "" && other.Variant != "" {
		return nil
	}
	common := slices.DeleteFunc(slices.Clone(have[0]),
		func(v string) bool { return !slices.Contains(have[1], v) })
	for _, usual := range []string{base.Variant, other.Variant,
		pipeline.Variant{Estimator: estimators.Exact}.String(),
		pipeline.Variant{Estimator: estimators.Flow, Passes: pipeline.MaxPasses}.String()} {
		if slices.Contains(common, usual) {
			common = []string{usual}
		}
	}
	switch {
	case len(common) == 1:
		base.Variant = common[0]
		other.Variant = common[0]
	case len(common) > 1:
		return fmt.Errorf("scenarios %s and %s have several estimates in common, say which as ID@VARIANT: %s",
			base.Scenario, other.Scenario, strings.Join(common, ", "))
	case len(have[0]) == 1 && len(have[1]) == 1:
		base.Variant = have[0][0]
		other.Variant = have[1][0] // rejected later, or compared across
	default:
		return fmt.Errorf("scenarios %s (%s) and %s (%s) have no way of estimating in common: run one of them "+
			"another way",
			base.Scenario, strings.Join(have[0], ", "), other.Scenario, strings.Join(have[1], ", "))
	}
	return nil
}

// A compared is a group of flows with their slowdowns and their FCTs in ms.
type compared struct {
	slowdowns, fcts sample
	changes         [2][]confidence.Change // of slowdowns and FCTs; nil before the first call of rows
}

func (g *compared) add(p *pair) {
	g.slowdowns.add(p.Row, p.Other, p.Base)
	g.fcts.add(p.Row, p.OtherFCT, p.BaseFCT)
}

// isOfBoth reports whether both sides have flows of the group.
func (g *compared) isOfBoth() bool { return min(len(g.fcts.estimate), len(g.fcts.tru)) > 0 }

// has reports whether the group has as many flows as another one.
func (g *compared) has(flowsOf *compared) bool {
	return len(g.fcts.estimate) == len(flowsOf.fcts.estimate) && len(g.fcts.tru) == len(flowsOf.fcts.tru)
}

func (g *compared) rows(key [4]string) (out []ComparisonRow, s ServiceComparison) {
	if g.changes[0] == nil {
		g.changes = [2][]confidence.Change{g.slowdowns.changes(), g.fcts.changes()}
	}
	n := int64(len(g.slowdowns.estimate))
	var base, other, baseFCT, otherFCT []float64
	for i, v := range g.changes[0] {
		f := g.changes[1][i]
		out = append(out, ComparisonRow{key[:], n, pipeline.Quantiles[i], v.From, v.To, v.Relative, v.Lo, v.Hi,
			f.From, f.To, f.Relative, f.Lo, f.Hi})
		base = append(base, v.From)
		other = append(other, v.To)
		baseFCT = append(baseFCT, f.From)
		otherFCT = append(otherFCT, f.To)
	}
	return out, ServiceComparison{key[0], n, newPercentiles(int64(len(g.fcts.tru)), base, baseFCT),
		newPercentiles(n, other, otherFCT)}
}

// percentiles computes the rows of the comparison with DuckDB. file is one that it may write.
func (c *Comparison) percentiles(ctx context.Context, db *sql.DB, file string) error {
	if err := c.joined.create(ctx, db); err != nil {
		return err
	}
	return c.percentilesOf(func(do func(p *pair) error) error {
		return eachRow(ctx, db, file, "FROM pairs", func(p *pair) error { return cmp.Or(do(p), ctx.Err()) })
	})
}

// percentilesOf computes the rows of the comparison of the pairs for which each calls do.
func (c *Comparison) percentilesOf(each func(do func(p *pair) error) error) error {
	all := &compared{}
	groups := map[[4]string]*compared{}
	by := c.by
	if len(by) == 0 {
		by = []string{"service"}
	}
	var grouped [4]bool
	for i, g := range ComparisonGroups() {
		grouped[i] = slices.Contains(by, g)
	}
	err := each(func(p *pair) error {
		all.add(p)
		c.IdealChanged += p.Ideal
		key := groupOf(grouped, [4]string{p.Service, p.VNet, p.SizeBin, p.Hops})
		if groups[key] == nil {
			for g := range key {
				key[g] = strings.Clone(key[g]) // the memory of the batch is reused
			}
			groups[key] = &compared{}
		}
		groups[key].add(p)
		return nil
	})
	if err != nil || !all.isOfBoth() {
		return err
	}
	if !c.joined.unpaired {
		c.Both = int64(len(all.fcts.tru))
	}
	keys := c.keys(groups)
	for _, k := range keys {
		if groups[k].has(all) {
			groups[k] = all // it is compared once
		}
		rows, service := groups[k].rows(k)
		if len(c.by) > 0 || len(keys) > 1 {
			c.Rows = append(c.Rows, rows...)
		}
		if k[0] != AllFlows && k[1] == AllFlows && k[2] == AllFlows && k[3] == AllFlows {
			c.Services = append(c.Services, service)
		}
	}
	rows, service := all.rows([4]string{AllFlows, AllFlows, AllFlows, AllFlows})
	c.Rows = append(c.Rows, rows...)
	c.Services = append(c.Services, service)
	return nil
}

// groupOf returns the group of a flow with the given labels. Only the labels that count are used. A service
// or vnet named AllFlows is put in parentheses.
func groupOf(counts [4]bool, labels [4]string) [4]string {
	for g, label := range labels {
		if !counts[g] {
			labels[g] = AllFlows
		} else if label == AllFlows {
			labels[g] = "(" + AllFlows + ")"
		}
	}
	return labels
}

// keys returns the groups to compare, in order. If groups were requested, it returns all of them, otherwise
// the services with the most flows.
func (c *Comparison) keys(groups map[[4]string]*compared) [][4]string {
	maps.DeleteFunc(groups, func(_ [4]string, g *compared) bool { return !g.isOfBoth() })
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

// binOrder returns the index of a size bin in the order of sizes.
func binOrder(name string) int {
	return slices.IndexFunc(sizebin.Bins(), func(b sizebin.Bin) bool { return b.Name == name })
}

// Judge evaluates gates for the flows of the comparison that they select, and stores the verdicts. The value
// of a gate is a quantile of the slowdowns or of the FCTs, in ms, in the other scenario, or the change of the
// quantile. It is +Inf if none of the flows has a path there. Loads are those of the other scenario. If a
// gate failed, the error is a *gate.Error.
func (c *Comparison) Judge(ctx context.Context, gates []gate.Gate) error {
	if len(gates) == 0 {
		return nil
	}
	db, err := duckdb.Open(ctx, duckdb.Options{MemoryBytes: pipeline.DefaultMemory})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing was written
	if err := c.joined.create(ctx, db); err != nil {
		return err
	}
	c.Gates, err = gate.Judge(gates, func(g gate.Gate) (gate.Interval, error) { return c.value(ctx, db, g) })
	return err
}

func (c *Comparison) value(ctx context.Context, db *sql.DB, g gate.Gate) (x gate.Interval, err error) {
	if g.Load {
		return c.ofOther(ctx, g)
	}
	base := "base"
	other := "other"
	if g.FCT {
		base = "base_fct_ms"
		other = "other_fct_ms"
	}
	where := "true"
	for column, value := range g.Filter {
		where += fmt.Sprintf(" AND %s = %s", column, duckdb.Quote(value))
	}
	var before, after sql.NullFloat64
	err = db.QueryRowContext(ctx, fmt.Sprintf("SELECT quantile_cont(nullif(%s, 0), %v), "+
		"quantile_cont(nullif(%s, 0), %v) FROM pairs WHERE %s", base, g.Quantile, other, g.Quantile,
		where)).Scan(&before, &after)
	switch {
	case err != nil:
		return x, duckdb.FirstLine(err)
	case !before.Valid || !after.Valid:
		if x, err = c.ofOther(ctx, g); err == nil && !math.IsInf(x.Value, 1) {
			err = errors.New("no flow that it selects has an estimate in both")
		}
		return x, err
	case g.Change:
		return gate.Exactly(after.Float64/before.Float64 - 1), nil
	}
	return gate.Exactly(after.Float64), nil
}

// ofOther returns the value of a gate in the other scenario alone.
func (c *Comparison) ofOther(ctx context.Context, g gate.Gate) (x gate.Interval, err error) {
	db, err := c.joined.other.OpenQueries(ctx)
	if err != nil {
		return x, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	if x, err = summary.Value(ctx, db, c.joined.other.Estimation, g); err != nil {
		err = fmt.Errorf("scenario %s: %w", c.Other.Scenario, err)
	}
	return x, err
}

func (c *Comparison) write(session *lake.Session) error {
	at := c.joined.other.place()
	name := c.Base.Scenario + "-" + c.Base.Variant
	rows := columns.RecordOf(schema.Comparisons, c.Rows, func(r ComparisonRow) columns.Row {
		row := columns.Row{
			"base_scenario": c.Base.Scenario, "base_variant": c.Base.Variant, "flows": r.Flows, "quantile": r.Quantile,
			"base_slowdown": r.Base, "slowdown": r.Other, "change": r.Change, "change_lo": r.Lo, "change_hi": r.Hi,
			"base_fct_ns": r.BaseFCT * 1e6, "fct_ns": r.OtherFCT * 1e6, "fct_change": r.FCTChange,
			"fct_change_lo": r.FCTLo, "fct_change_hi": r.FCTHi,
		}
		for i, group := range ComparisonGroups() {
			row[group] = r.Group[i]
		}
		return row
	})
	place := int64(0)
	links := columns.RecordOf(schema.ComparisonLinks, c.Links, func(d LinkDifference) columns.Row {
		place++
		row := columns.Row{
			"base_scenario": c.Base.Scenario, "base_variant": c.Base.Variant, "place": place, "link": d.Name,
			"tier":       d.Tier,
			"tail_flows": c.TailFlows, "base_load": d.BaseLoad, "load": d.Load,
			"base_delay_ns": d.BaseDelayNS, "delay_ns": d.DelayNS,
		}
		if d.BaseLink != nil {
			row["base_link_id"] = *d.BaseLink
		}
		if d.Link != nil {
			row["link_id"] = *d.Link
		}
		return row
	})
	return session.PublishRows(at, name, rows, links)
}

// idealReason returns the settings because of which the ideal FCTs of flows differ.
func (c *Comparison) idealReason() string {
	b := &c.joined.base.Spec.Params
	o := &c.joined.other.Spec.Params
	if b.PayloadBytes == o.PayloadBytes && b.HeaderBytes == o.HeaderBytes && b.AckBytes == o.AckBytes {
		return "bandwidth, delay or length of their paths"
	}
	return fmt.Sprintf("the packets (now %d + %d bytes of header, ACKs of %d; before %d + %d, %d)",
		o.PayloadBytes, o.HeaderBytes, o.AckBytes, b.PayloadBytes, b.HeaderBytes, b.AckBytes)
}

// Text formats the comparison for users. If the ideal FCT of flows differs, the FCTs come first.
func (c *Comparison) Text() *text.Answer {
	a := &text.Answer{}
	a.Linef("base  %s (%s), variant %s", c.Base.Scenario, c.BaseName, c.Base.Variant)
	a.Linef("other %s (%s), variant %s", c.Other.Scenario, c.OtherName, c.Other.Variant)
	if c.joined.unpaired {
		a.Linef("No flow is in both (%d flows, %d in the base): percentiles of all flows of each are compared, "+
			"flows are not paired; changes with their 95%% bootstrap intervals", c.Flows, c.BaseFlows)
	} else {
		a.Linef("%d flows are in both (of %d and %d); changes with their 95%% bootstrap intervals", c.Both,
			c.BaseFlows, c.Flows)
	}
	n := c.Unreachable
	if n > 0 || c.BaseUnreachable > 0 {
		a.Linef("%d flows have no path and no estimate (%d in the base); the rows below are without them", n,
			c.BaseUnreachable)
	}
	if len(c.Scaled) > 0 {
		a.Linef("flows with an estimate: %s", names.Listed(c.Scaled, 8))
	}
	if len(c.Differ) > 0 {
		a.Linef("settings that differ: %s", strings.Join(c.Differ, ", "))
	}
	if n := len(c.Changed); n > 0 {
		changed := names.Of(c.Changed, scenario.CableChange.String)
		// --format json lists all of them.
		a.Linef("%s changed: %s", topology.Count(n, "cable"), names.Listed(changed, 8))
	}
	if c.IdealChanged > 0 {
		a.Linef("The ideal FCT of %d of these flows differs: %s differ. Their slowdown is relative to another "+
			"ideal: compare the FCTs.", c.IdealChanged, c.idealReason())
	}
	c.addJobs(a)
	c.addPercentiles(a)
	if len(c.Links) > 0 {
		a.Linef("\nLinks with the largest differences: mean delay at the link, of the %d flows above the p99 "+
			"slowdown of either",
			c.TailFlows)
		table := a.Table("link", "tier", "base_load", "load", "base_delay_ns", "delay_ns", "difference_ns")
		ofHosts := false
		for _, d := range c.Links {
			table.Add(d.Name, d.Tier, d.BaseLoad, d.Load, d.BaseDelayNS, d.DelayNS, d.DelayNS-d.BaseDelayNS)
			ofHosts = ofHosts || strings.HasPrefix(d.Tier, "host-")
		}
		if ofHosts && c.joined.other.Variant().Stored().WholeNetwork() {
			a.Linef("At host-… links, senders also wait because of congestion at later links (windows, losses, " +
				"timeouts).")
		}
	}
	return a
}

// addPercentiles adds a row for each percentile of each group.
func (c *Comparison) addPercentiles(a *text.Answer) {
	a.Linef("")
	by := c.by
	if len(by) == 0 && len(c.Services) > 1 {
		by = []string{"service"}
	}
	head := slices.DeleteFunc(ComparisonGroups(), func(g string) bool { return !slices.Contains(by, g) })
	first := []string{"base_slowdown", "slowdown", "change", "change_lo", "change_hi"}
	second := []string{"base_fct_ms", "fct_ms", "fct_change", "fct_change_lo", "fct_change_hi"}
	if c.IdealChanged > 0 {
		first, second = second, first
	}
	table := a.Table(slices.Concat(head, []string{"flows", "quantile"}, first, second[:3])...)
	for _, r := range c.Rows {
		var row []any
		for i, g := range ComparisonGroups() {
			if slices.Contains(by, g) {
				row = append(row, r.Group[i])
			}
		}
		row = append(row, r.Flows, r.Quantile)
		first := []any{text.Figure(r.Base), text.Figure(r.Other), text.Percent(r.Change), text.Percent(r.Lo),
			text.Percent(r.Hi)}
		second := []any{text.Figure(r.BaseFCT), text.Figure(r.OtherFCT), text.Percent(r.FCTChange),
			text.Percent(r.FCTLo), text.Percent(r.FCTHi)}
		if c.IdealChanged > 0 {
			first, second = second, first
		}
		table.Add(slices.Concat(row, first, second[:3])...)
	}
}

// LinkDifference has the average delay that a link adds to the flows of the tail in each estimate.
type LinkDifference struct {
	BaseLink    *int32  `json:"base_link_id"` // nil: the base has no link between these nodes
	Link        *int32  `json:"link_id"`      // nil: the other network has no link between these nodes
	Name        string  `json:"link"`         // topology.Network.LinkName
	Src         string  `json:"src"`
	Dst         string  `json:"dst"`
	Tier        string  `json:"tier"`
	BaseLoad    float64 `json:"base_load"`
	Load        float64 `json:"load"`
	BaseDelayNS float64 `json:"base_delay_ns"`
	DelayNS     float64 `json:"delay_ns"`
}

// findLinks finds the links whose delays of the flows of the tail differ most between the estimates. The tail
// consists of the flows above the p99 slowdown in either estimate.
func (c *Comparison) findLinks(ctx context.Context, db *sql.DB, p99 ComparisonRow, most int) error {
	_, err := db.ExecContext(ctx, fmt.Sprintf("CREATE TABLE tail AS SELECT base_row, other_row FROM pairs "+
		"WHERE base > '%v'::DOUBLE OR other > '%v'::DOUBLE", p99.Base, p99.Other))
	var ofBase, ofOther float64
	if err == nil {
		err = db.QueryRowContext(ctx, "SELECT count(*), count(base_row), count(other_row) FROM tail").
			Scan(&c.TailFlows, &ofBase, &ofOther)
	}
	if err != nil {
		return duckdb.FirstLine(err)
	}
	delays := func(side string) (map[int32]linkDelay, error) {
		of := map[int32]linkDelay{}
		text := strings.ReplaceAll(queries.Known("tail_delays").SQL, "$side", side)
		return of, duckdb.Each(ctx, db, text, func(rows *sql.Rows) error {
			var link int32
			var d linkDelay
			err := rows.Scan(&link, &d.ns, &d.load)
			of[link] = d
			return err
		})
	}
	base, err := delays("base")
	if err != nil {
		return err
	}
	other, err := delays("other")
	if err != nil {
		return err
	}
	for _, d := range sameLinks(c.joined.base.Network, c.joined.other.Network) {
		var b, o linkDelay
		if d.BaseLink != nil {
			b = base[*d.BaseLink]
		}
		if d.Link != nil {
			o = other[*d.Link]
		}
		d.BaseLoad = b.load
		d.Load = o.load
		d.BaseDelayNS = b.ns / max(1, ofBase)
		d.DelayNS = o.ns / max(1, ofOther)
		if d.BaseDelayNS != d.DelayNS {
			c.Links = append(c.Links, d)
		}
	}
	slices.SortStableFunc(c.Links, func(x, y LinkDifference) int {
		return cmp.Compare(math.Abs(y.DelayNS-y.BaseDelayNS), math.Abs(x.DelayNS-x.BaseDelayNS))
	})
	c.Links = c.Links[:min(most, len(c.Links))]
	return nil
}

// A linkDelay is the total delay that a link adds to the flows of the tail, in ns, and the load of the link.
type linkDelay struct{ ns, load float64 }

// sameLinks matches the links of two networks. It returns the links of the second network by id, followed by
// links that only the base has. Links with the same id are the same if sameName accepts them, and others are
// if their names are equal.
func sameLinks(base, other *topology.Network) (all []LinkDifference) {
	add := func(n *topology.Network, id int32) *LinkDifference {
		l := n.Links[id]
		all = append(all, LinkDifference{
			Name: n.LinkName(id), Src: n.Name(l.Src), Dst: n.Name(l.Dst), Tier: l.Tier,
		})
		return &all[len(all)-1]
	}
	inBoth := make([]bool, len(base.Links))
	byName := map[string]int32{} // links of the base whose id has another name in the other network
	for id := range base.Links {
		inBoth[id] = sameName(base, other, int32(id))
		if !inBoth[id] {
			byName[base.LinkName(int32(id))] = int32(id)
		}
	}
	for id := range other.Links {
		d := add(other, int32(id))
		d.Link = new(int32(id))
		if sameName(base, other, int32(id)) {
			d.BaseLink = d.Link
		} else if at, is := byName[d.Name]; is {
			d.BaseLink = new(at)
			inBoth[at] = true
			delete(byName, d.Name)
		}
	}
	for id := range base.Links {
		if !inBoth[id] {
			add(base, int32(id)).BaseLink = new(int32(id))
		}
	}
	return all
}

// sameName reports whether the link with the given id joins the same nodes in both networks. If it is a
// member of a LAG in both, it must be the same member.
func sameName(base, other *topology.Network, id int32) bool {
	if int(id) >= min(len(base.Links), len(other.Links)) {
		return false
	}
	ends := func(n *topology.Network) string {
		return n.Name(n.Links[id].Src) + " → " + n.Name(n.Links[id].Dst)
	}
	b := base.LinkName(id)
	o := other.LinkName(id)
	return b == o || ends(base) == ends(other) && (b == ends(base) || o == ends(other))
}
