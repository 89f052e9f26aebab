-- question: How does slowdown grow with the number of links on a flow's path?
-- grain: one row per scenario, variant and path length
-- units: slowdown is FCT / ideal FCT, no unit
-- param: scenario text = '' : scenario id; empty means every scenario in the lake, each on its own rows
-- param: variant text = '' : estimator variant; empty means every variant in the lake, each on its own rows

WITH groups AS (
    SELECT
        scenario, variant, hops,
        count(*) AS flows,
        quantile_cont(slowdown, [0.5, 0.9, 0.99, 0.999]) AS q,
        max(slowdown) AS max_slowdown
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY scenario, variant, hops
)
SELECT
    scenario, variant, hops, flows,
    q[1] AS p50_slowdown, q[2] AS p90_slowdown, q[3] AS p99_slowdown, q[4] AS p999_slowdown,
    max_slowdown
FROM groups
ORDER BY scenario, variant, hops
