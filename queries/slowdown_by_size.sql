-- question: What is the slowdown by flow size, of all flows or of one service?
-- grain: one row per scenario, variant and size bin, and one for all sizes
-- units: sizes in bytes; slowdown is FCT / ideal FCT; p50_fct_ms and p99_fct_ms are percentiles of the FCT; lo and hi are the bounds of its 95% confidence interval
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: service text = '' : service; empty means the flows of all services

-- Each flow counts in its bin of size_bins and in bin 'all'.
WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, size_bin_of(size_bytes) AS flow_group, slowdown, fct_ns
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND ($service = '' OR service = $service)
), groups AS (
    SELECT p.scenario, p.variant, b.bin, b.size_bin, p.flows, p.q, p.max_value AS max_slowdown, p.fct
    FROM flow_percentiles(picked, [0.5, 0.9, 0.99, 0.999], [0.5, 0.99]) AS p
    JOIN size_bins AS b ON CASE WHEN p.whole THEN b.size_bin = 'all' ELSE b.bin = p.flow_group END
), trust AS (
    SELECT * FROM intervals_by_group
    WHERE service IS NOT DISTINCT FROM nullif($service, '') AND vnet IS NULL
      AND ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
)
SELECT
    g.scenario, g.variant, g.size_bin, g.flows,
    g.q[1] AS p50_slowdown, g.q[2] AS p90_slowdown, g.q[3] AS p99_slowdown, g.q[4] AS p999_slowdown,
    g.max_slowdown, g.fct[1] / 1e6 AS p50_fct_ms, g.fct[2] / 1e6 AS p99_fct_ms,
    i.p50_lo, i.p50_hi, i.p90_lo, i.p90_hi, i.p99_lo, i.p99_hi, i.p999_lo, i.p999_hi, coalesce(i.warning, '') AS warning
FROM groups AS g
LEFT JOIN trust AS i ON i.scenario = g.scenario AND i.variant = g.variant AND i.size_bin = g.size_bin
ORDER BY g.scenario, g.variant, g.bin
