-- question: How many packets are retransmitted or arrive out of order, and how slow are their flows?
-- grain: one row per scenario, variant and size bin with flows of which a packet was retransmitted or reordered, all flows first; estimates from link cases have no rows
-- units: retransmissions and reordered in packets; flows_hit is the number of flows with either, p99_hit_slowdown the p99 of their slowdown; slowdown is FCT / ideal FCT
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run

WITH hit AS (
    SELECT scenario, variant, size_bin_of(size_bytes) AS bin, count(*) AS flows,
        CAST(sum(retransmissions) AS BIGINT) AS retransmissions, CAST(sum(reordered) AS BIGINT) AS reordered,
        count(*) FILTER (retransmissions > 0) AS flows_resent, count(*) FILTER (reordered > 0) AS flows_reordered,
        quantile_cont(slowdown, 0.99) AS p99_hit_slowdown
    FROM slowdowns
    WHERE (retransmissions > 0 OR reordered > 0)
      AND ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY GROUPING SETS ((scenario, variant), (scenario, variant, bin))
)
SELECT
    h.scenario, h.variant, coalesce(b.size_bin, 'all') AS size_bin, h.flows AS flows_hit, h.flows_resent, h.retransmissions,
    h.flows_reordered, h.reordered, h.p99_hit_slowdown
FROM hit AS h
LEFT JOIN size_bins AS b ON b.bin = h.bin
ORDER BY h.scenario, h.variant, h.bin NULLS FIRST
