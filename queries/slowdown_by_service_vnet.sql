-- question: How slow are the flows of each service in each virtual network, beside those of all?
-- grain: one row per scenario, variant, service and virtual network
-- units: slowdown is FCT / ideal FCT, no unit; shares are fractions of all flows and bytes; p99_over_all is the p99 over that of all flows
-- param: scenario text = '' : scenario id; empty means every scenario in the lake, each on its own rows
-- param: variant text = '' : estimator variant; empty means every variant in the lake, each on its own rows
-- param: from_ns time = 0 : flows that start from then on, in ns
-- param: to_ns time = 9223372036854775807 : and before then

WITH picked AS (
    SELECT scenario, variant, service, vnet, size_bytes, slowdown
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND start_ns >= $from_ns AND start_ns < $to_ns
), everything AS (
    SELECT scenario, variant, count(*) AS flows, sum(size_bytes) AS bytes, quantile_cont(slowdown, [0.5, 0.99]) AS q
    FROM picked
    GROUP BY scenario, variant
), groups AS (
    SELECT scenario, variant, service, vnet, count(*) AS flows, sum(size_bytes) AS bytes, quantile_cont(slowdown, [0.5, 0.9, 0.99, 0.999]) AS q
    FROM picked
    GROUP BY scenario, variant, service, vnet
)
SELECT
    g.scenario, g.variant, g.service, g.vnet, g.flows,
    g.flows / CAST(e.flows AS DOUBLE) AS flow_share,
    CAST(g.bytes AS DOUBLE) / CAST(e.bytes AS DOUBLE) AS byte_share,
    g.q[1] AS p50_slowdown, g.q[2] AS p90_slowdown, g.q[3] AS p99_slowdown, g.q[4] AS p999_slowdown,
    e.q[1] AS all_p50_slowdown, e.q[2] AS all_p99_slowdown,
    g.q[3] / e.q[2] AS p99_over_all
FROM groups AS g
JOIN everything AS e ON e.scenario = g.scenario AND e.variant = g.variant
ORDER BY g.scenario, g.variant, g.service, g.vnet
