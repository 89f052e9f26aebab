-- question: What is the slowdown of each service by flow size?
-- grain: one row per scenario, variant, service and size bin (and one per service over all sizes)
-- units: sizes in bytes; slowdown is FCT / ideal FCT, no unit; lo and hi are the bounds of its 95% confidence interval
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: service text = '' : service; empty means all services

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, {service: service, bin: size_bin_of(size_bytes)} AS flow_group, slowdown AS value
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND ($service = '' OR service = $service)
), whole AS NOT MATERIALIZED (
    SELECT * REPLACE (flow_group.service AS flow_group) FROM picked
), groups AS (
    SELECT p.scenario, p.variant, p.flow_group.service AS service, b.bin, b.size_bin, p.flows, p.q, p.max_value AS max_slowdown
    FROM percentiles(picked, [0.5, 0.9, 0.99, 0.999]) AS p
    JOIN size_bins AS b ON b.bin = p.flow_group.bin
    UNION ALL
    SELECT p.scenario, p.variant, p.flow_group, b.bin, b.size_bin, p.flows, p.q, p.max_value
    FROM percentiles(whole, [0.5, 0.9, 0.99, 0.999]) AS p
    JOIN size_bins AS b ON b.size_bin = 'all'
), trust AS (
    SELECT * FROM intervals_by_group
    WHERE service IS NOT NULL AND vnet IS NULL
      AND ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
)
SELECT
    g.scenario, g.variant, g.service, g.size_bin, g.flows,
    g.q[1] AS p50_slowdown, g.q[2] AS p90_slowdown, g.q[3] AS p99_slowdown, g.q[4] AS p999_slowdown,
    g.max_slowdown,
    i.p50_lo, i.p50_hi, i.p90_lo, i.p90_hi, i.p99_lo, i.p99_hi, i.p999_lo, i.p999_hi, coalesce(i.warning, '') AS warning
FROM groups AS g
LEFT JOIN trust AS i ON i.scenario = g.scenario AND i.variant = g.variant AND i.service = g.service AND i.size_bin = g.size_bin
ORDER BY g.scenario, g.variant, g.service, g.bin
