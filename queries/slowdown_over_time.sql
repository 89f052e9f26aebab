-- question: When are flows slow?
-- grain: one row per scenario, variant and interval of start times
-- units: from_ns and to_ns in ns, from_ns included and to_ns not; slowdown is FCT / ideal FCT, no unit
-- param: scenario text = '' : scenario id; empty means every scenario in the lake, each on its own rows
-- param: variant text = '' : estimator variant; empty means every variant in the lake, each on its own rows
-- param: interval_ms positive = 100 : length of an interval, in ms (rounded to whole ns)

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, start_ns // greatest(1, CAST($interval_ms * 1e6 AS BIGINT)) AS flow_group, slowdown AS value
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), groups AS (
    SELECT scenario, variant, flow_group AS slot, flows, q, max_value AS max_slowdown
    FROM percentiles(picked, [0.5, 0.9, 0.99, 0.999])
)
SELECT
    scenario, variant,
    slot * greatest(1, CAST($interval_ms * 1e6 AS BIGINT)) AS from_ns,
    (slot + 1) * greatest(1, CAST($interval_ms * 1e6 AS BIGINT)) AS to_ns,
    flows,
    q[1] AS p50_slowdown, q[2] AS p90_slowdown, q[3] AS p99_slowdown, q[4] AS p999_slowdown,
    max_slowdown
FROM groups
ORDER BY scenario, variant, from_ns
