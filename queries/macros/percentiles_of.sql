-- percentiles_of(relation, members, fractions): percentiles of groups of groups. The
-- relation is as above; flow_group is the smallest group that a value is in. Members is the name of a materialized
-- common table expression with the columns scenario, variant, flow_group and of_group, a number: the larger groups that
-- a smaller one is part of. The result has one row per larger group, in the columns of percentiles, as of_group.
--
-- Values are counted once, in their smallest group, and the counts are added up: four larger groups of the same values
-- cost no more than one.
percentiles_of(relation, members, fractions) AS TABLE
WITH cells AS (
    SELECT scenario, variant, flow_group, percentile_cell(value) AS cell, count(*) AS n, max(value) AS most
    FROM query_table(relation)
    WHERE value IS NOT NULL
    GROUP BY ALL
), placed AS MATERIALIZED (
    SELECT
        scenario, variant, of_group, cell, upto - n AS before, flows, max_value
    FROM (
        SELECT
            scenario, variant, of_group, cell, n, CAST(sum(n) OVER (own ORDER BY cell) AS BIGINT) AS upto,
            CAST(sum(n) OVER own AS BIGINT) AS flows, max(most) OVER own AS max_value
        FROM (
            SELECT c.scenario, c.variant, m.of_group, c.cell, CAST(sum(c.n) AS BIGINT) AS n, max(c.most) AS most
            FROM cells AS c
            JOIN query_table(members) AS m
              ON m.scenario = c.scenario AND m.variant = c.variant AND m.flow_group = c.flow_group
            GROUP BY ALL
        )
        WINDOW own AS (PARTITION BY scenario, variant, of_group)
    )
    WHERE percentile_within(fractions, flows, upto - n, upto)
), opened AS MATERIALIZED (
    -- The cells to count values in: those of any larger group.
    SELECT DISTINCT m.scenario, m.variant, m.flow_group, p.cell
    FROM placed AS p
    JOIN query_table(members) AS m ON m.scenario = p.scenario AND m.variant = p.variant AND m.of_group = p.of_group
), found AS (
    SELECT r.scenario, r.variant, r.flow_group, o.cell, r.value, count(*) AS n
    FROM query_table(relation) AS r
    JOIN opened AS o
      ON o.scenario = r.scenario AND o.variant = r.variant AND o.flow_group = r.flow_group
     AND o.cell = percentile_cell(r.value)
    GROUP BY ALL
), counted AS (
    SELECT
        f.scenario, f.variant, m.of_group, f.cell, f.value, CAST(sum(f.n) AS BIGINT) AS n,
        max(p.before) AS before, max(p.flows) AS flows, max(p.max_value) AS max_value
    FROM found AS f
    JOIN query_table(members) AS m ON m.scenario = f.scenario AND m.variant = f.variant AND m.flow_group = f.flow_group
    JOIN placed AS p
      ON p.scenario = f.scenario AND p.variant = f.variant AND p.of_group = m.of_group AND p.cell = f.cell
    GROUP BY ALL
), ranked AS (
    SELECT *, before + CAST(sum(n) OVER cell_values AS BIGINT) AS upto
    FROM counted
    WINDOW cell_values AS (PARTITION BY scenario, variant, of_group, cell ORDER BY value)
), bounds AS (
    SELECT
        scenario, variant, of_group, flows, max_value, nth, (flows - 1) * p AS rank,
        min(value) FILTER (upto > floor((flows - 1) * p)) AS lower,
        min(value) FILTER (upto > ceil((flows - 1) * p)) AS upper
    FROM ranked, (SELECT CAST(unnest(fractions) AS DOUBLE) AS p, generate_subscripts(fractions, 1) AS nth)
    WHERE ceil((flows - 1) * p) >= upto - n AND floor((flows - 1) * p) < upto
    GROUP BY ALL
)
SELECT
    scenario, variant, of_group, flows,
    list(CASE WHEN rank = floor(rank) THEN lower
        ELSE lower * (1 - (rank - floor(rank))) + upper * (rank - floor(rank)) END ORDER BY nth) AS q,
    max_value
FROM bounds
GROUP BY ALL
