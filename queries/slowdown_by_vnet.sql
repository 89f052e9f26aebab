-- question: What is the slowdown of each virtual network?
-- grain: one row per scenario, variant and virtual network
-- units: slowdown is FCT / ideal FCT, no unit; lo and hi are the bounds of its 95% confidence interval
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, vnet AS flow_group, slowdown AS value
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), groups AS (
    SELECT scenario, variant, flow_group AS vnet, flows, q, max_value AS max_slowdown
    FROM percentiles(picked, [0.5, 0.9, 0.99, 0.999])
), trust AS (
    SELECT * FROM intervals_by_group
    WHERE service IS NULL AND vnet IS NOT NULL AND size_bin = 'all'
      AND ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
)
SELECT
    g.scenario, g.variant, g.vnet, g.flows,
    g.q[1] AS p50_slowdown, g.q[2] AS p90_slowdown, g.q[3] AS p99_slowdown, g.q[4] AS p999_slowdown,
    g.max_slowdown,
    i.p50_lo, i.p50_hi, i.p90_lo, i.p90_hi, i.p99_lo, i.p99_hi, i.p999_lo, i.p999_hi, coalesce(i.warning, '') AS warning
FROM groups AS g
LEFT JOIN trust AS i ON i.scenario = g.scenario AND i.variant = g.variant AND i.vnet = g.vnet
ORDER BY g.scenario, g.variant, g.vnet
