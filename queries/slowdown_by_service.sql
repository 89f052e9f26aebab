-- question: What is the slowdown of each service?
-- grain: one row per scenario, variant and service
-- units: slowdown is FCT / ideal FCT; p50_fct_ms and p99_fct_ms are percentiles of the FCT; lo and hi are the bounds of its 95% confidence interval
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: service text = '' : service; empty means all services

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, service AS flow_group, slowdown, fct_ns
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND ($service = '' OR service = $service)
), groups AS (
    SELECT scenario, variant, flow_group AS service, flows, q, max_value AS max_slowdown, fct
    FROM flow_percentiles(picked, [0.5, 0.9, 0.99, 0.999], [0.5, 0.99])
    WHERE NOT whole
), trust AS (
    SELECT * FROM intervals_by_group
    WHERE service IS NOT NULL AND vnet IS NULL AND size_bin = 'all'
      AND ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
)
SELECT
    g.scenario, g.variant, g.service, g.flows,
    g.q[1] AS p50_slowdown, g.q[2] AS p90_slowdown, g.q[3] AS p99_slowdown, g.q[4] AS p999_slowdown,
    g.max_slowdown, g.fct[1] / 1e6 AS p50_fct_ms, g.fct[2] / 1e6 AS p99_fct_ms,
    i.p50_lo, i.p50_hi, i.p90_lo, i.p90_hi, i.p99_lo, i.p99_hi, i.p999_lo, i.p999_hi, coalesce(i.warning, '') AS warning
FROM groups AS g
LEFT JOIN trust AS i ON i.scenario = g.scenario AND i.variant = g.variant AND i.service = g.service
ORDER BY g.scenario, g.variant, g.service
