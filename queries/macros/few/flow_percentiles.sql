-- flow_percentiles(relation, fractions, fct_fractions) for flows that fit in memory. It needs one scan.
flow_percentiles(relation, fractions, fct_fractions) AS TABLE
SELECT
    scenario, variant, grouping(flow_group) = 1 AS whole, flow_group, count(*) AS flows,
    quantile_cont(slowdown, fractions) AS q, max(slowdown) AS max_value, quantile_cont(fct_ns, fct_fractions) AS fct
FROM query_table(relation)
GROUP BY GROUPING SETS ((scenario, variant, flow_group), (scenario, variant))
