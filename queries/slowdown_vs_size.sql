-- question: How does slowdown depend on flow size, in bins with equal numbers of flows?
-- grain: one row per scenario, variant and size bin
-- units: sizes in bytes; slowdown is FCT / ideal FCT, no unit
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means all variants of the lake, with separate rows for each
-- param: bins count = 20 : number of bins

-- Bin k holds the sizes above quantile k/bins, up to quantile (k+1)/bins. Flows of equal size are in one
-- bin, that of the first of them: a size that many flows have makes its bin larger and can leave the next ones empty.
WITH sizes AS (
    SELECT scenario, variant, size_bytes, count(*) AS n
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY scenario, variant, size_bytes
), binned AS MATERIALIZED (
    SELECT
        scenario, variant, size_bytes,
        (CAST(sum(n) OVER (everything ORDER BY size_bytes) AS BIGINT) - n) * $bins
            // CAST(sum(n) OVER everything AS BIGINT) AS bin
    FROM sizes
    WINDOW everything AS (PARTITION BY scenario, variant)
    QUALIFY bin < $bins -- always true, but lowers DuckDB's estimate of the number of sizes below that of flows
), picked AS NOT MATERIALIZED (
    SELECT s.scenario, s.variant, b.bin AS flow_group, s.slowdown AS value
    FROM slowdowns AS s
    JOIN binned AS b ON b.scenario = s.scenario AND b.variant = s.variant AND b.size_bytes = s.size_bytes
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
), bins AS (
    SELECT scenario, variant, bin, min(size_bytes) AS size_min_bytes, max(size_bytes) AS size_max_bytes
    FROM binned
    GROUP BY scenario, variant, bin
)
SELECT
    p.scenario, p.variant, b.bin, b.size_min_bytes, b.size_max_bytes, p.flows,
    p.q[1] AS p50_slowdown, p.q[2] AS p95_slowdown, p.q[3] AS p99_slowdown
FROM percentiles(picked, [0.5, 0.95, 0.99]) AS p
JOIN bins AS b ON b.scenario = p.scenario AND b.variant = p.variant AND b.bin = p.flow_group
ORDER BY p.scenario, p.variant, b.bin
