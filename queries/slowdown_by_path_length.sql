-- question: How does slowdown grow with the number of links on a flow's path?
-- grain: one row per scenario, variant and path length
-- units: slowdown is FCT / ideal FCT, no unit
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, hops AS flow_group, slowdown AS value
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), groups AS (
    SELECT scenario, variant, flow_group AS hops, flows, q, max_value AS max_slowdown
    FROM percentiles(picked, [0.5, 0.9, 0.99, 0.999])
)
SELECT
    scenario, variant, hops, flows,
    q[1] AS p50_slowdown, q[2] AS p90_slowdown, q[3] AS p99_slowdown, q[4] AS p999_slowdown,
    max_slowdown
FROM groups
ORDER BY scenario, variant, hops
