-- Exact percentiles in bounded memory.
--
-- DuckDB's quantile_cont holds every value of a group, outside of its memory limit, and cannot spill. The
-- table macros percentiles and percentiles_and_whole return the same numbers, to the bit, from counts:
--
--     scan 1   values ─→ cells    number of values per (group, cell)            ~1,300 cells per group
--              cells  ─→ placed   the few cells that the percentiles fall into
--     scan 2   values ─→ found    number per distinct value, in those cells     ~1 in 100 values
--              found  ─→ bounds   the two values on either side of each rank
--                                 q = lower × (1 - f) + upper × f, where f = rank - ⌊rank⌋
--
-- A cell is a range of values: percentile_cell(value) is its number, which never decreases with the value.
-- The memory is that of the counts, which DuckDB can spill. For thousands of groups of few values each,
-- quantile_cont is faster. Macro percentiles_of is for groups that have values in common.
--
-- Both macros have the parameters (relation, fractions). The relation is the name of a view or of a common
-- table expression with the columns scenario, variant, flow_group (of any type) and value. It is read twice,
-- so a common table expression must say NOT MATERIALIZED. Fractions is a list of numbers from 0 to 1. The
-- result has one row per group, with the columns
--
--     scenario, variant, whole (false), flow_group, flows (number of values), q (list of percentiles), max_value
--
-- percentiles_and_whole has one more row for each scenario and variant, over all groups: whole is true and
-- flow_group null.
--
-- Each common table expression is used once, so that DuckDB pushes conditions on scenario and variant into both
-- scans. QUALIFY, where a later WHERE would do, gives DuckDB a low estimate of the rows of opened: it then builds
-- the hash table of the join from opened and not from the values.
percentiles_and_whole(relation, fractions) AS TABLE
WITH cells AS (
    -- First scan: the number of values in each cell of each group.
    SELECT scenario, variant, flow_group, percentile_cell(value) AS cell, count(*) AS n, max(value) AS most
    FROM query_table(relation)
    WHERE value IS NOT NULL
    GROUP BY ALL
), placed AS (
    -- Of each cell, the values up to its end (upto) and in the whole group (flows), and the same over all groups
    -- (all_…). Only the cells that a percentile depends on remain.
    SELECT
        scenario, variant, flow_group, cell,
        CAST(sum(n) OVER (own ORDER BY cell) AS BIGINT) AS upto, n,
        CAST(sum(n) OVER own AS BIGINT) AS flows, max(most) OVER own AS max_value,
        CAST(sum(n) OVER (everything ORDER BY cell) AS BIGINT) AS all_upto,
        CAST(sum(n) OVER (PARTITION BY scenario, variant, cell) AS BIGINT) AS all_n,
        CAST(sum(n) OVER everything AS BIGINT) AS all_flows, max(most) OVER everything AS all_max_value
    FROM cells
    WINDOW own AS (PARTITION BY scenario, variant, flow_group), everything AS (PARTITION BY scenario, variant)
    QUALIFY percentile_within(fractions, flows, upto - n, upto)
        OR percentile_within(fractions, all_flows, all_upto - all_n, all_upto)
), opened AS (
    -- before and all_before: the values before the cell, null if no percentile of the group, or of all groups,
    -- depends on the cell.
    SELECT
        scenario, variant, flow_group, cell, flows, max_value, all_flows, all_max_value,
        CASE WHEN percentile_within(fractions, flows, upto - n, upto) THEN upto - n END AS before,
        CASE WHEN percentile_within(fractions, all_flows, all_upto - all_n, all_upto)
            THEN all_upto - all_n END AS all_before
    FROM placed
), found AS (
    -- Second scan: the distinct values in those cells, each with its number of occurrences n.
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
    -- One row for the value in its group (whole is false), and one in all groups together (whole is true).
    SELECT
        scenario, variant, whole, CASE WHEN NOT whole THEN flow_group END AS flow_group, cell, value,
        CAST(sum(n) AS BIGINT) AS n,
        max(CASE WHEN whole THEN all_before ELSE before END) AS before,
        max(CASE WHEN whole THEN all_flows ELSE flows END) AS flows,
        max(CASE WHEN whole THEN all_max_value ELSE max_value END) AS max_value
    FROM found, (VALUES (false), (true)) AS w(whole)
    WHERE CASE WHEN whole THEN all_before ELSE before END IS NOT NULL
    GROUP BY ALL
), ranked AS (
    -- upto: the number of values that are at most this one.
    SELECT *, before + CAST(sum(n) OVER cell_values AS BIGINT) AS upto
    FROM counted
    WINDOW cell_values AS (PARTITION BY scenario, variant, whole, flow_group, cell ORDER BY value)
), bounds AS (
    -- A percentile has a rank, counted from 0, between two values: lower and upper.
    SELECT
        scenario, variant, whole, flow_group, flows, max_value, nth, (flows - 1) * p AS rank,
        min(value) FILTER (upto > floor((flows - 1) * p)) AS lower,
        min(value) FILTER (upto > ceil((flows - 1) * p)) AS upper
    FROM ranked, (SELECT CAST(unnest(fractions) AS DOUBLE) AS p, generate_subscripts(fractions, 1) AS nth)
    WHERE ceil((flows - 1) * p) >= upto - n AND floor((flows - 1) * p) < upto
    GROUP BY ALL
)
SELECT
    scenario, variant, whole, flow_group, flows,
    list(CASE WHEN rank = floor(rank) THEN lower
        ELSE lower * (1 - (rank - floor(rank))) + upper * (rank - floor(rank)) END ORDER BY nth) AS q,
    max_value
FROM bounds
GROUP BY ALL
