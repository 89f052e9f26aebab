-- question: How slow are the flows of each service at each size?
-- grain: one row per scenario, variant, service and size bin (and one per service for all sizes)
-- units: sizes in bytes; slowdown is FCT / ideal FCT, no unit; lo and hi are the ends of its 95% interval
-- param: scenario text = '' : scenario id; empty means every scenario in the lake, each on its own rows
-- param: variant text = '' : estimator variant; empty means every variant in the lake, each on its own rows

WITH groups AS (
    SELECT
        s.scenario, s.variant, s.service, b.bin, b.size_bin,
        count(*) AS flows,
        quantile_cont(s.slowdown, [0.5, 0.9, 0.99, 0.999]) AS q,
        max(s.slowdown) AS max_slowdown
    FROM slowdowns AS s
    JOIN size_bins AS b ON s.size_bytes BETWEEN b.size_min_bytes AND b.size_max_bytes
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
    GROUP BY s.scenario, s.variant, s.service, b.bin, b.size_bin
), trust AS (
    SELECT * FROM intervals
    WHERE service IS NOT NULL
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
