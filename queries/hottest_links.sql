-- question: Which links carry the most?
-- grain: one row per scenario, variant and link, the n most loaded of each
-- units: bandwidth in bits per second; bytes without headers; load is a fraction of what the link could carry
-- param: scenario text = '' : scenario id; empty means every scenario in the lake, each on its own rows
-- param: variant text = '' : estimator variant; empty means every variant in the lake, each on its own rows
-- param: n count = 10 : number of links to list

WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY scenario, variant ORDER BY load DESC, link_id) AS place
    FROM link_stats
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
)
SELECT
    r.scenario, r.variant, r.place, r.link_id, r.src_node, r.dst_node,
    a.name AS src_name, b.name AS dst_name,
    r.tier, r.bandwidth_bps, r.flows, r.bytes, r.load, r.max_queue_bytes
FROM ranked AS r
LEFT JOIN nodes AS a ON a.scenario = r.scenario AND a.node_id = r.src_node
LEFT JOIN nodes AS b ON b.scenario = r.scenario AND b.node_id = r.dst_node
WHERE r.place <= $n
ORDER BY r.scenario, r.variant, r.place
