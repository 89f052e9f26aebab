-- question: What is the slowdown of each service in each virtual network, compared with all flows?
-- grain: one row per scenario, variant, service and virtual network
-- units: slowdown is FCT / ideal FCT; p50_fct_ms and p99_fct_ms are percentiles of the FCT; shares are fractions of all flows and bytes; p99_over_all is p99_slowdown divided by the p99 of all flows; lo and hi are the bounds of its 95% confidence interval, and null if a time range is given
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: from_ns time = 0 : start of the time range in ns, included
-- param: to_ns time = 9223372036854775807 : end of the time range in ns, excluded

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, {service: service, vnet: vnet} AS flow_group, slowdown, fct_ns
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND start_ns >= $from_ns AND start_ns < $to_ns
), sizes AS (
    SELECT scenario, variant, service, vnet, sum(size_bytes) AS bytes
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND start_ns >= $from_ns AND start_ns < $to_ns
    GROUP BY scenario, variant, service, vnet
), groups AS (
    SELECT
        *,
        max(flows) FILTER (WHERE whole) OVER everything AS all_flows,
        max(q[1]) FILTER (WHERE whole) OVER everything AS all_p50,
        max(q[3]) FILTER (WHERE whole) OVER everything AS all_p99
    FROM flow_percentiles(picked, [0.5, 0.9, 0.99, 0.999], [0.5, 0.99])
    WINDOW everything AS (PARTITION BY scenario, variant)
), trust AS (
    SELECT * FROM intervals_by_group
    WHERE service IS NOT NULL AND vnet IS NOT NULL AND size_bin = 'all'
      AND ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
)
SELECT
    g.scenario, g.variant, s.service, s.vnet, g.flows,
    g.flows / CAST(g.all_flows AS DOUBLE) AS flow_share,
    CAST(s.bytes AS DOUBLE) / CAST(sum(s.bytes) OVER (PARTITION BY g.scenario, g.variant) AS DOUBLE) AS byte_share,
    g.q[1] AS p50_slowdown, g.q[2] AS p90_slowdown, g.q[3] AS p99_slowdown, g.q[4] AS p999_slowdown, g.max_value AS max_slowdown,
    g.fct[1] / 1e6 AS p50_fct_ms, g.fct[2] / 1e6 AS p99_fct_ms,
    g.all_p50 AS all_p50_slowdown, g.all_p99 AS all_p99_slowdown,
    g.q[3] / g.all_p99 AS p99_over_all,
    i.p50_lo, i.p50_hi, i.p90_lo, i.p90_hi, i.p99_lo, i.p99_hi, i.p999_lo, i.p999_hi, coalesce(i.warning, '') AS warning
FROM groups AS g
JOIN sizes AS s
  ON s.scenario = g.scenario AND s.variant = g.variant AND s.service = g.flow_group.service AND s.vnet = g.flow_group.vnet
LEFT JOIN trust AS i -- of the whole time: other flows have other intervals
  ON i.scenario = g.scenario AND i.variant = g.variant AND i.service = s.service AND i.vnet = s.vnet AND i.flows = g.flows
WHERE NOT g.whole
ORDER BY g.scenario, g.variant, s.service, s.vnet
