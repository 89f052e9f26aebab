-- question: Which links have the highest load?
-- grain: one row per scenario, variant and link, for the n most loaded links
-- units: bandwidth in bits per second; bytes without headers; load is a fraction of the link's capacity; max_queue_bytes is null if the link was not simulated (--cluster)
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: n count = 10 : number of links to list

WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY scenario, variant ORDER BY load DESC, link_id) AS place
    FROM link_stats
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
)
SELECT
    r.scenario, r.variant, r.place, r.link_id, n.link, r.src_node, r.dst_node,
    n.src_name, n.dst_name, r.tier,
    r.bandwidth_bps, r.flows, r.bytes, r.load, CASE WHEN r.packets_sent > 0 THEN r.max_queue_bytes END AS max_queue_bytes
FROM ranked AS r
LEFT JOIN (SELECT * FROM link_names WHERE $scenario = '' OR scenario = $scenario) AS n
  ON n.scenario = r.scenario AND n.link_id = r.link_id
WHERE r.place <= $n
ORDER BY r.scenario, r.variant, r.place
