-- question: How many packets are sent again or arrive out of order, and how slow are their flows?
-- grain: one row per scenario, variant and size bin of flows of which a packet was sent again or reordered; all flows first; none where nothing is lost (switches.buffer, losses) or overtaken, and of estimates by link cases
-- units: retransmissions and reordered in packets; flows_hit are the flows with any, p99_hit_slowdown their p99; slowdown is FCT / ideal FCT, no unit
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario

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
