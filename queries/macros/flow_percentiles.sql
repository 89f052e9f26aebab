-- flow_percentiles(relation, fractions, fct_fractions): percentiles_and_whole of the slowdowns of flows, with
-- percentiles fct of their FCTs in ns. The relation has columns scenario, variant, flow_group, slowdown and fct_ns.
flow_percentiles(relation, fractions, fct_fractions) AS TABLE
WITH slowdowns_only AS NOT MATERIALIZED (
    SELECT scenario, variant, flow_group, slowdown AS value FROM query_table(relation)
), fcts_only AS NOT MATERIALIZED (
    SELECT scenario, variant, flow_group, CAST(fct_ns AS DOUBLE) AS value FROM query_table(relation)
)
SELECT p.*, f.q AS fct
FROM percentiles_and_whole(slowdowns_only, fractions) AS p
JOIN percentiles_and_whole(fcts_only, fct_fractions) AS f ON f.scenario = p.scenario AND f.variant = p.variant
    AND f.whole = p.whole AND f.flow_group IS NOT DISTINCT FROM p.flow_group
