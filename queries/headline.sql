-- question: What is the slowdown of all flows, with its confidence intervals, the size of the workload and the highest load?
-- grain: one row per scenario and variant
-- units: slowdown is FCT / ideal FCT; lo and hi are the bounds of its 95% confidence interval; p50_fct_ms and p99_fct_ms are percentiles of the FCT; bytes are without headers; span_ns is the time from the first start to the last; loads are fractions of a link's capacity
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, 'all' AS flow_group, slowdown, fct_ns
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), totals AS (
    SELECT
        scenario, variant, CAST(sum(size_bytes) AS BIGINT) AS bytes, max(start_ns) - min(start_ns) AS span_ns,
        count(DISTINCT service) AS services, count(DISTINCT vnet) AS vnets
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY scenario, variant
), bounds AS (
    SELECT
        scenario, variant,
        max(lo) FILTER (quantile = 0.5) AS p50_lo, max(hi) FILTER (quantile = 0.5) AS p50_hi,
        max(lo) FILTER (quantile = 0.9) AS p90_lo, max(hi) FILTER (quantile = 0.9) AS p90_hi,
        max(lo) FILTER (quantile = 0.99) AS p99_lo, max(hi) FILTER (quantile = 0.99) AS p99_hi,
        max(lo) FILTER (quantile = 0.999) AS p999_lo, max(hi) FILTER (quantile = 0.999) AS p999_hi
    FROM intervals
    WHERE service IS NULL AND vnet IS NULL AND size_bin = 'all'
      AND ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY scenario, variant
), busiest AS (
    SELECT scenario, variant, max(load) AS max_load, arg_max(link_id, (load, -link_id)) AS max_load_link
    FROM link_stats
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY scenario, variant
)
SELECT
    p.scenario, p.variant, p.flows, t.bytes, t.span_ns, t.services, t.vnets,
    p.q[1] AS p50_slowdown, p.q[2] AS p90_slowdown, p.q[3] AS p99_slowdown, p.q[4] AS p999_slowdown, p.max_value AS max_slowdown,
    p.fct[1] / 1e6 AS p50_fct_ms, p.fct[2] / 1e6 AS p99_fct_ms,
    b.p50_lo, b.p50_hi, b.p90_lo, b.p90_hi, b.p99_lo, b.p99_hi, b.p999_lo, b.p999_hi,
    k.max_load, k.max_load_link, l.tier AS max_load_tier, n.src_name AS max_load_src, n.dst_name AS max_load_dst,
    n.link AS max_load_name
FROM flow_percentiles(picked, [0.5, 0.9, 0.99, 0.999], [0.5, 0.99]) AS p
JOIN totals AS t ON t.scenario = p.scenario AND t.variant = p.variant
LEFT JOIN bounds AS b ON b.scenario = p.scenario AND b.variant = p.variant
LEFT JOIN busiest AS k ON k.scenario = p.scenario AND k.variant = p.variant
LEFT JOIN links AS l ON l.scenario = p.scenario AND l.link_id = k.max_load_link
LEFT JOIN (SELECT * FROM link_names WHERE $scenario = '' OR scenario = $scenario) AS n
  ON n.scenario = p.scenario AND n.link_id = k.max_load_link
WHERE p.whole
ORDER BY p.scenario, p.variant
