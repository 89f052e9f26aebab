package queries

import (
	"fmt"
	"strings"
)

// sizeBin is a bin of flow size; both borders belong to it.
type sizeBin struct {
	name     string
	min, max int64 // bytes
}

// sizeBins are the bins of flow size that questions speak of: the paper's three of section 5 with its
// middle one, 10 KB to 1 MB, halved at 100 KB. KB is 1,000 bytes. Bin 'all' holds every flow, the others
// hold each flow once.
var sizeBins = []sizeBin{
	{"<10 KB", 0, 9_999},
	{"10-100 KB", 10_000, 99_999},
	{"100 KB-1 MB", 100_000, 1_000_000},
	{">1 MB", 1_000_001, 1<<63 - 1},
	{"all", 0, 1<<63 - 1},
}

// sizeBinsView is the view size_bins: a row for each bin, numbered from 0.
func sizeBinsView() string {
	var rows []string
	for i, b := range sizeBins {
		rows = append(rows, fmt.Sprintf("(CAST(%d AS INTEGER), %s, CAST(%d AS BIGINT), CAST(%d AS BIGINT))", i, quote(b.name), b.min, b.max))
	}
	return "SELECT * FROM (VALUES " + strings.Join(rows, ", ") + ") AS bins(bin, size_bin, size_min_bytes, size_max_bytes)"
}

// sizeBinMacro is the macro size_bin_of(bytes): the number of a flow's own bin, without a join.
func sizeBinMacro() string {
	own := len(sizeBins) - 2 // the last but 'all'
	text := "size_bin_of(bytes) AS CASE"
	for i, b := range sizeBins[:own] {
		text += fmt.Sprintf(" WHEN bytes <= %d THEN %d", b.max, i)
	}
	return fmt.Sprintf("%s ELSE %d END", text, own)
}

// percentileCellMacro is the macro percentile_cell(value): the number of the cell of values that a value
// is in, never smaller for a greater value. DuckDB has no way to the bits of a double, and a logarithm need
// not be monotone to the last bit; a difference, a square root and a product are, by IEEE 754. Cells are
// narrowest at 1, the least a slowdown can be, where half of them are: 0.0006% wide at 1.0001, 0.02% at
// 1.014, 0.5% at 2, 0.9% at 100. Below 1, and for what is no slowdown, they are as good.
const percentileCellMacro = `percentile_cell(value) AS
    CAST(floor(1000 * sign(value - 1) * sqrt(sqrt(sqrt(abs(value - 1))))) AS INTEGER)`

// percentilesText is the table macro percentiles(relation, fractions): exact percentiles of groups of values,
// the same to the bit as quantile_cont's, in memory that hardly grows with the values. (quantile_cont
// holds every value, outside of DuckDB's memory limit, and cannot spill.)
//
// The relation, by its name, has columns scenario, variant, flow_group (of any type) and value. It is read
// twice, so a WITH must say NOT MATERIALIZED of it. First the values in each cell of each group are
// counted, which says in which cells the values looked for are (a percentile is interpolated between
// two) and how many values are before those cells. Then the values in those cells alone are counted, each
// distinct one once, however often it occurs. What is held is counts: of cells, about 1,300 a group where
// slowdowns go up to 10, and of distinct values, about one in a hundred. DuckDB spills both, should
// they not fit. For thousands of groups of few values each there is nothing to gain, and quantile_cont
// is faster.
//
// The answer has a row for each group: scenario, variant, whole (false), flow_group, flows (the number of
// values), q (the percentiles, in the order of the fractions) and max_value. percentiles_and_whole has another
// row for each scenario and variant, of all groups together: whole is true and flow_group null.
//
// No common table expression is used twice, because a condition on scenario or variant around the macro
// would then not reach both scans. QUALIFY, in the place of a WHERE further on, tells DuckDB that what is left
// is little, so that it looks the values up in it, and not it in a table of all values.
const percentilesText = `%[1]s(relation, fractions) AS TABLE
WITH cells AS (
    SELECT scenario, variant, flow_group, percentile_cell(value) AS cell, count(*) AS n, max(value) AS most
    FROM query_table(relation)
    WHERE value IS NOT NULL
    GROUP BY ALL
), placed AS (
    SELECT
        scenario, variant, flow_group, cell,
        CAST(sum(n) OVER (own ORDER BY cell) AS BIGINT) AS upto, n,
        CAST(sum(n) OVER own AS BIGINT) AS flows, max(most) OVER own AS max_value,
        %[2]s
    FROM cells
    WINDOW own AS (PARTITION BY scenario, variant, flow_group), everything AS (PARTITION BY scenario, variant)
    QUALIFY len([p FOR p IN fractions IF ceil((flows - 1) * CAST(p AS DOUBLE)) >= upto - n AND floor((flows - 1) * CAST(p AS DOUBLE)) < upto]) > 0
        OR len([p FOR p IN fractions IF ceil((all_flows - 1) * CAST(p AS DOUBLE)) >= all_upto - all_n AND floor((all_flows - 1) * CAST(p AS DOUBLE)) < all_upto]) > 0
), opened AS (
    SELECT
        scenario, variant, flow_group, cell, flows, max_value, all_flows, all_max_value,
        CASE WHEN len([p FOR p IN fractions IF ceil((flows - 1) * CAST(p AS DOUBLE)) >= upto - n AND floor((flows - 1) * CAST(p AS DOUBLE)) < upto]) > 0
            THEN upto - n END AS before,
        CASE WHEN len([p FOR p IN fractions IF ceil((all_flows - 1) * CAST(p AS DOUBLE)) >= all_upto - all_n AND floor((all_flows - 1) * CAST(p AS DOUBLE)) < all_upto]) > 0
            THEN all_upto - all_n END AS all_before
    FROM placed
), found AS (
    SELECT
        r.scenario, r.variant, r.flow_group, o.cell, r.value, count(*) AS n,
        max(o.before) AS before, max(o.flows) AS flows, max(o.max_value) AS max_value,
        max(o.all_before) AS all_before, max(o.all_flows) AS all_flows, max(o.all_max_value) AS all_max_value
    FROM query_table(relation) AS r
    JOIN opened AS o
      ON o.scenario = r.scenario AND o.variant = r.variant AND o.flow_group IS NOT DISTINCT FROM r.flow_group
     AND o.cell = percentile_cell(r.value)
    GROUP BY r.scenario, r.variant, r.flow_group, o.cell, r.value
), counted AS (
    SELECT
        scenario, variant, whole, CASE WHEN NOT whole THEN flow_group END AS flow_group, cell, value, CAST(sum(n) AS BIGINT) AS n,
        max(CASE WHEN whole THEN all_before ELSE before END) AS before,
        max(CASE WHEN whole THEN all_flows ELSE flows END) AS flows,
        max(CASE WHEN whole THEN all_max_value ELSE max_value END) AS max_value
    FROM found, (VALUES (false), (true)) AS w(whole)
    WHERE CASE WHEN whole THEN all_before ELSE before END IS NOT NULL
    GROUP BY ALL
), ranked AS (
    SELECT *, before + CAST(sum(n) OVER (PARTITION BY scenario, variant, whole, flow_group, cell ORDER BY value) AS BIGINT) AS upto
    FROM counted
), bounds AS (
    SELECT
        scenario, variant, whole, flow_group, flows, max_value, place, (flows - 1) * p AS rank,
        min(value) FILTER (upto > floor((flows - 1) * p)) AS lower, min(value) FILTER (upto > ceil((flows - 1) * p)) AS upper
    FROM ranked, (SELECT CAST(unnest(fractions) AS DOUBLE) AS p, generate_subscripts(fractions, 1) AS place)
    WHERE ceil((flows - 1) * p) >= upto - n AND floor((flows - 1) * p) < upto
    GROUP BY ALL
)
SELECT
    scenario, variant, whole, flow_group, flows,
    list(CASE WHEN rank = floor(rank) THEN lower ELSE lower * (1 - (rank - floor(rank))) + upper * (rank - floor(rank)) END ORDER BY place) AS q,
    max_value
FROM bounds
GROUP BY ALL`

// percentilesMacro is the macro percentiles.
func percentilesMacro() string {
	return fmt.Sprintf(percentilesText, "percentiles", "CAST(NULL AS BIGINT) AS all_upto, NULL AS all_n, NULL AS all_flows, NULL AS all_max_value")
}

// percentilesAndWholeMacro is the macro percentiles_and_whole.
func percentilesAndWholeMacro() string {
	return fmt.Sprintf(percentilesText, "percentiles_and_whole", `CAST(sum(n) OVER (everything ORDER BY cell) AS BIGINT) AS all_upto,
        CAST(sum(n) OVER (PARTITION BY scenario, variant, cell) AS BIGINT) AS all_n,
        CAST(sum(n) OVER everything AS BIGINT) AS all_flows, max(most) OVER everything AS all_max_value`)
}
