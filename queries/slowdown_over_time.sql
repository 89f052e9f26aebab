-- question: How does slowdown change over time?
-- grain: one row per scenario, variant and interval of start times
-- units: from_ns (included) and to_ns (excluded) in ns; slowdown is FCT / ideal FCT, no unit
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: interval_ms positive = 100 : length of an interval in ms, rounded to whole ns

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
