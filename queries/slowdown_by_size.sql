-- question: How much slower than alone in the network do flows of each size finish?
-- grain: one row per scenario, variant and size bin (and one for all sizes)
-- units: sizes in bytes; slowdown is FCT / ideal FCT, no unit
-- param: scenario text = '' : scenario id; empty means every scenario in the lake, each on its own rows
-- param: variant text = '' : estimator variant; empty means every variant in the lake, each on its own rows

-- Every flow falls into its own bin of size_bins and into bin 'all'.
WITH groups AS (
    SELECT
        s.scenario, s.variant, b.bin, b.size_bin,
        count(*) AS flows,
        quantile_cont(s.slowdown, [0.5, 0.9, 0.99, 0.999]) AS q,
        max(s.slowdown) AS max_slowdown
    FROM slowdowns AS s
    JOIN size_bins AS b ON s.size_bytes BETWEEN b.size_min_bytes AND b.size_max_bytes
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
    GROUP BY s.scenario, s.variant, b.bin, b.size_bin
)
SELECT
    scenario, variant, size_bin, flows,
    q[1] AS p50_slowdown, q[2] AS p90_slowdown, q[3] AS p99_slowdown, q[4] AS p999_slowdown,
    max_slowdown
FROM groups
ORDER BY scenario, variant, bin
