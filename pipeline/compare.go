package pipeline

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/stages/ingest"
)

// A Side is one of two estimates to compare.
type Side struct {
	Scenario string // id, the first letters of one, or name
	Variant  string // empty: see Compare
}

// CompareOptions say how to compare.
type CompareOptions struct {
	// By groups the flows: columns of ComparisonGroups; none: all flows together.
	By []string
	// Across allows estimates made in different ways, whose difference is also that of the ways.
	Across bool
	// Links is how many links to name as explanation.
	Links int
	// MemoryBytes is what DuckDB may use; 0: DefaultMemory.
	MemoryBytes int64
}

// ComparisonGroups lists what flows can be grouped by.
func ComparisonGroups() []string { return []string{"service", "vnet", "size_bin", "hops"} }

// A Comparison is two estimates side by side.
type Comparison struct {
	Base, Other            Side // ids and variants
	BaseName, OtherName    string
	BaseFlows, Flows, Both int64 // of either, and those that are in both
	Rows                   []ComparisonRow
	TailFlows              int64
	Links                  []LinkDifference
	by                     []string
}

// ComparisonRow compares one quantile of the slowdowns of one group of flows, those in both.
type ComparisonRow struct {
	Group    []string // a value for each of ComparisonGroups, or all
	Flows    int64
	Quantile float64
	Base     float64
	Other    float64
	Change   float64 // Other / Base - 1
	Lo, Hi   float64 // its 95% bootstrap interval, flows drawn in pairs
}

// LinkDifference says what a link adds to the tail's flows in either, a mean over them.
type LinkDifference struct {
	Link                 int32
	Src, Dst, Tier       string
	BaseLoad, Load       float64
	BaseDelayNS, DelayNS float64
}

// ErrDifferentWays is wrapped by the refusal to compare estimates that were made in different ways.
var ErrDifferentWays = errors.New("estimated in different ways")

// Compare holds two estimates of a lake against each other, flow by flow: a flow is in both if its id,
// size and start are. Where a side names no variant, it is the one that both have; of several, that
// of the default estimator. The comparison also goes to tables comparisons and comparison_links, where
// it is the other's.
func Compare(ctx context.Context, dir string, base, other Side, o CompareOptions) (*Comparison, error) {
	lake, err := OpenLake(dir, false)
	if err != nil {
		return nil, err
	}
	for _, g := range o.By {
		if !slices.Contains(ComparisonGroups(), g) {
			return nil, fmt.Errorf("flows cannot be grouped by %q, but by %s", g, strings.Join(ComparisonGroups(), ", "))
		}
	}
	c := &Comparison{by: o.By}
	for _, side := range []*Side{&base, &other} {
		if side.Scenario == "" {
			return nil, errors.New("name both scenarios")
		}
		if side.Scenario, err = lake.resolve(side.Scenario); err != nil {
			return nil, err
		}
	}
	if err := lake.chooseVariants(&base, &other); err != nil {
		return nil, err
	}
	if base == other {
		return nil, fmt.Errorf("scenario %s, variant %s, is compared with itself", base.Scenario, base.Variant)
	}
	if base.Variant != other.Variant && !o.Across {
		return nil, fmt.Errorf("%s as %s and %s as %s: %w (--across compares them all the same)", base.Scenario, base.Variant, other.Scenario, other.Variant, ErrDifferentWays)
	}
	c.Base, c.Other = base, other
	for side, name := range map[*Side]*string{&c.Base: &c.BaseName, &c.Other: &c.OtherName} {
		var sp spec
		if _, err := lake.readState(lake.statePath(place{scenario: side.Scenario}, "spec.json"), &sp); err != nil {
			return nil, err
		}
		*name = sp.Name
	}
	spill := filepath.Join(lake.root, tmpDir, "compare-"+strconv.Itoa(os.Getpid())) // made by DuckDB, if it spills
	defer func() {
		_ = os.RemoveAll(spill)
		_ = os.Remove(filepath.Dir(spill)) // if nobody else is writing
	}()
	db, err := duckdb.Open(ctx, duckOptions(cmp.Or(o.MemoryBytes, DefaultMemory), runtime.GOMAXPROCS(0), spill))
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	if err := c.percentiles(ctx, db, lake); err != nil {
		return nil, fmt.Errorf("comparing %s with %s: %w", other.Scenario, base.Scenario, ingest.FirstLine(err))
	}
	if c.Both == 0 {
		return nil, fmt.Errorf("scenarios %s and %s have no flow in common", base.Scenario, other.Scenario)
	}
	if err := c.links(ctx, db, lake, o.Links); err != nil {
		return nil, fmt.Errorf("comparing %s with %s by link: %w", other.Scenario, base.Scenario, ingest.FirstLine(err))
	}
	return c, c.write(lake)
}

// chooseVariants fills in what estimates are meant.
func (l *Lake) chooseVariants(base, other *Side) error {
	have := map[*Side][]string{}
	for _, side := range []*Side{base, other} {
		s, err := l.scenarioStatus(side.Scenario, false)
		if err != nil {
			return err
		}
		if s.State == stateDamaged {
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
	usual := flowVariant + strconv.Itoa(DefaultPasses)
	switch {
	case len(common) == 1 || slices.Contains(common, usual):
		if len(common) > 1 {
			common[0] = usual
		}
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

// scan is the SQL that reads a table of one side.
func (s Side) scan(l *Lake, t schema.Table) string {
	glob := filepath.Join(l.root, filepath.FromSlash(place{s.Scenario, s.Variant}.dir(t)), "part-*.parquet")
	return "read_parquet(" + ingest.QuoteSQL(glob) + ", hive_partitioning = false)"
}

// inBoth is the SQL of the pairs of flows.
func (c *Comparison) inBoth(l *Lake) string {
	return c.Base.scan(l, schema.Slowdowns) + " a JOIN " + c.Other.scan(l, schema.Slowdowns) +
		" b ON a.flow_id = b.flow_id AND a.size_bytes = b.size_bytes AND a.start_ns = b.start_ns"
}

// percentiles fills in the rows.
func (c *Comparison) percentiles(ctx context.Context, db *sql.DB, l *Lake) error {
	for side, n := range map[Side]*int64{c.Base: &c.BaseFlows, c.Other: &c.Flows} {
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+side.scan(l, schema.Slowdowns)).Scan(n); err != nil {
			return err
		}
	}
	rows, err := db.QueryContext(ctx, "SELECT a.flow_row, a.service, a.vnet, a.size_bytes, a.hops, a.slowdown, b.slowdown FROM "+c.inBoth(l)+" ORDER BY a.flow_row")
	if err != nil {
		return err
	}
	defer rows.Close()
	const wildcard = "all"
	all := &sample{}
	groups := map[[4]string]*sample{}
	for rows.Next() {
		var row, size int64
		var hops int
		var service, vnet string
		var before, after float64
		if err := rows.Scan(&row, &service, &vnet, &size, &hops, &before, &after); err != nil {
			return err
		}
		all.add(row, after, before)
		if len(c.by) == 0 {
			continue
		}
		key := [4]string{wildcard, wildcard, wildcard, wildcard}
		for i, value := range []string{service, vnet, sizeBin(size), strconv.Itoa(hops)} {
			if slices.Contains(c.by, ComparisonGroups()[i]) {
				key[i] = value
			}
		}
		if groups[key] == nil {
			groups[key] = &sample{}
		}
		groups[key].add(row, after, before)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	keys := make([][4]string, 0, len(groups))
	for k := range groups {
		keys = append(keys, k)
	}
	order := func(k [4]string) int { return slices.Index(sizeBinNames, k[2]) }
	slices.SortFunc(keys, func(a, b [4]string) int {
		return cmp.Or(slices.Compare(a[:2], b[:2]), cmp.Compare(order(a), order(b)), cmp.Compare(len(a[3]), len(b[3])), strings.Compare(a[3], b[3]))
	})
	add := func(key [4]string, s *sample) {
		for _, v := range s.compare() {
			c.Rows = append(c.Rows, ComparisonRow{key[:], v.Flows, v.Quantile, v.True, v.Estimate, v.Error, v.ErrorLo, v.ErrorHi})
		}
	}
	for _, k := range keys {
		add(k, groups[k])
	}
	if c.Both = int64(len(all.rows)); c.Both > 0 {
		add([4]string{wildcard, wildcard, wildcard, wildcard}, all)
	}
	return nil
}

var sizeBinNames = []string{"<10 KB", "10-100 KB", "100 KB-1 MB", ">1 MB"}

// sizeBin names a flow's bin, as view size_bins does.
func sizeBin(size int64) string {
	switch {
	case size < 10_000:
		return sizeBinNames[0]
	case size < 100_000:
		return sizeBinNames[1]
	case size <= 1_000_000:
		return sizeBinNames[2]
	}
	return sizeBinNames[3]
}

// links finds where the flows of the tail, those above the p99 of either side, are delayed more or less.
func (c *Comparison) links(ctx context.Context, db *sql.DB, l *Lake, most int) error {
	last := c.Rows[len(c.Rows)-len(answerQuantiles):] // all flows
	p99 := last[slices.Index(answerQuantiles, 0.99)]
	tail := fmt.Sprintf("tail AS MATERIALIZED (SELECT a.flow_row AS base_row, b.flow_row AS other_row FROM %s WHERE a.slowdown > %v OR b.slowdown > %v)", c.inBoth(l), p99.Base, p99.Other)
	if err := db.QueryRowContext(ctx, "WITH "+tail+" SELECT count(*) FROM tail").Scan(&c.TailFlows); err != nil {
		return err
	}
	// Decimals add up to the same bits in any order, doubles do not.
	side := func(s Side, row string) string {
		return fmt.Sprintf("(SELECT link_id, CAST(sum(CAST(delay_ns AS DECIMAL(30, 3))) AS DOUBLE) AS delay_ns FROM %s JOIN tail ON flow_row = %s GROUP BY link_id)", s.scan(l, schema.HopContributions), row)
	}
	nodes := c.Other.scan(l, schema.Nodes)
	rows, err := db.QueryContext(ctx, fmt.Sprintf(`WITH %s
		SELECT k.link_id, s.name, d.name, k.tier, coalesce(p.load, 0), coalesce(q.load, 0), coalesce(x.delay_ns, 0), coalesce(y.delay_ns, 0)
		FROM %s k JOIN %s s ON s.node_id = k.src_node JOIN %s d ON d.node_id = k.dst_node
		LEFT JOIN %s p ON p.link_id = k.link_id LEFT JOIN %s q ON q.link_id = k.link_id
		LEFT JOIN %s x ON x.link_id = k.link_id LEFT JOIN %s y ON y.link_id = k.link_id
		WHERE coalesce(x.delay_ns, 0) <> coalesce(y.delay_ns, 0)
		ORDER BY abs(coalesce(y.delay_ns, 0) - coalesce(x.delay_ns, 0)) DESC, k.link_id LIMIT %d`,
		tail, c.Other.scan(l, schema.Links), nodes, nodes, c.Base.scan(l, schema.LinkStats), c.Other.scan(l, schema.LinkStats),
		side(c.Base, "base_row"), side(c.Other, "other_row"), most))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var d LinkDifference
		if err := rows.Scan(&d.Link, &d.Src, &d.Dst, &d.Tier, &d.BaseLoad, &d.Load, &d.BaseDelayNS, &d.DelayNS); err != nil {
			return err
		}
		d.BaseDelayNS /= float64(c.TailFlows)
		d.DelayNS /= float64(c.TailFlows)
		c.Links = append(c.Links, d)
	}
	return rows.Err()
}

// write puts the comparison into the lake.
func (c *Comparison) write(l *Lake) error {
	unlock, err := l.lock(c.Other.Scenario)
	if err != nil {
		return err
	}
	defer unlock()
	at := place{c.Other.Scenario, c.Other.Variant}
	name := "/part-" + c.Base.Scenario + "-" + c.Base.Variant + ".parquet"
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Comparisons.Arrow())
	defer b.Release()
	for _, r := range c.Rows {
		for i, text := range append([]string{c.Base.Scenario, c.Base.Variant}, r.Group...) {
			b.Field(i).(*array.StringBuilder).Append(text)
		}
		b.Field(6).(*array.Int64Builder).Append(r.Flows)
		for i, x := range []float64{r.Quantile, r.Base, r.Other, r.Change, r.Lo, r.Hi} {
			b.Field(7 + i).(*array.Float64Builder).Append(x)
		}
	}
	k := array.NewRecordBuilder(memory.DefaultAllocator, schema.ComparisonLinks.Arrow())
	defer k.Release()
	for i, d := range c.Links {
		k.Field(0).(*array.StringBuilder).Append(c.Base.Scenario)
		k.Field(1).(*array.StringBuilder).Append(c.Base.Variant)
		k.Field(2).(*array.Int64Builder).Append(int64(i + 1))
		k.Field(3).(*array.Int32Builder).Append(d.Link)
		k.Field(4).(*array.Int64Builder).Append(c.TailFlows)
		for i, x := range []float64{d.BaseLoad, d.Load, d.BaseDelayNS, d.DelayNS} {
			k.Field(5 + i).(*array.Float64Builder).Append(x)
		}
	}
	for _, t := range []struct {
		table   schema.Table
		builder *array.RecordBuilder
	}{{schema.Comparisons, b}, {schema.ComparisonLinks, k}} {
		rec := t.builder.NewRecord()
		_, err := l.writePart(t.table, at.dir(t.table)+name, []arrow.Record{rec}...)
		rec.Release()
		if err != nil {
			return err
		}
	}
	return queries.WriteCatalog(l.root)
}

// Write writes the comparison as tables.
func (c *Comparison) Write(w io.Writer) error {
	p := printer{w: w}
	p.linef("base  %s (%s), variant %s", c.Base.Scenario, c.BaseName, c.Base.Variant)
	p.linef("other %s (%s), variant %s", c.Other.Scenario, c.OtherName, c.Other.Variant)
	p.linef("%d flows are in both (of %d and %d)", c.Both, c.BaseFlows, c.Flows)
	p.linef("\nSlowdown of the flows in both; change with its 95%% bootstrap interval")
	head := ""
	for _, g := range ComparisonGroups() {
		if slices.Contains(c.by, g) {
			head += fmt.Sprintf("%-12s ", g)
		}
	}
	p.linef("%s%9s %8s %10s %10s %8s %19s", head, "flows", "quantile", "base", "other", "change", "interval")
	for _, r := range c.Rows {
		label := ""
		for i, g := range ComparisonGroups() {
			if slices.Contains(c.by, g) {
				label += fmt.Sprintf("%-12s ", r.Group[i])
			}
		}
		p.linef("%s%9d %8g %10.3f %10.3f %+7.1f%% %+8.1f%% to %+6.1f%%", label, r.Flows, r.Quantile, r.Base, r.Other, 100*r.Change, 100*r.Lo, 100*r.Hi)
	}
	if len(c.Links) > 0 {
		p.linef("\nLinks that explain it: mean delay there, ns, of the %d flows above the p99 of either", c.TailFlows)
		p.linef("%8s  %-36s %-14s %9s %7s %12s %12s %12s", "link_id", "link", "tier", "base_load", "load", "base_delay", "delay", "difference")
		for _, d := range c.Links {
			p.linef("%8d  %-36s %-14s %9.4f %7.4f %12.0f %12.0f %+12.0f", d.Link, d.Src+" → "+d.Dst, d.Tier, d.BaseLoad, d.Load, d.BaseDelayNS, d.DelayNS, d.DelayNS-d.BaseDelayNS)
		}
	}
	return p.err
}
