-- percentiles(relation, fractions) for values that fit in memory. It returns the same numbers with one scan.
percentiles(relation, fractions) AS TABLE
SELECT
    scenario, variant, false AS whole, flow_group, count(*) AS flows, quantile_cont(value, fractions) AS q,
    max(value) AS max_value
FROM query_table(relation)
WHERE value IS NOT NULL
GROUP BY scenario, variant, flow_group
