-- question: How does slowdown depend on flow size, in bins of equally many flows?
-- grain: one row per scenario, variant and size bin
-- units: sizes in bytes; slowdown is FCT / ideal FCT, no unit
-- param: scenario text = '' : scenario id; empty means every scenario in the lake, each on its own rows
-- param: variant text = '' : estimator variant; empty means every variant in the lake, each on its own rows
-- param: bins count = 20 : number of bins

-- Bin k goes from above the size at quantile k/bins to the size at quantile (k+1)/bins, both sizes
-- that flows have. Flows of one size stay together, so a size that many flows share makes its bin
-- larger and leaves the next ones out.
WITH borders AS (
    SELECT
        scenario, variant,
        quantile_disc(size_bytes, [k / CAST($bins AS DOUBLE) FOR k IN range(0, $bins + 1)]) AS sizes
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY scenario, variant
), bins AS (
    SELECT
        scenario, variant, k AS bin,
        CASE WHEN k = 0 THEN -1 ELSE sizes[k + 1] END AS above_bytes,
        sizes[k + 2] AS to_bytes
    FROM borders, range(0, $bins) AS numbers(k)
), groups AS (
    SELECT
        s.scenario, s.variant, b.bin,
        min(s.size_bytes) AS size_min_bytes,
        max(s.size_bytes) AS size_max_bytes,
        count(*) AS flows,
        quantile_cont(s.slowdown, [0.5, 0.95, 0.99]) AS q
    FROM slowdowns AS s
    JOIN bins AS b
      ON b.scenario = s.scenario AND b.variant = s.variant
     AND s.size_bytes > b.above_bytes AND s.size_bytes <= b.to_bytes
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
    GROUP BY s.scenario, s.variant, b.bin
)
SELECT
    scenario, variant, bin, size_min_bytes, size_max_bytes, flows,
    q[1] AS p50_slowdown, q[2] AS p95_slowdown, q[3] AS p99_slowdown
FROM groups
ORDER BY scenario, variant, bin
