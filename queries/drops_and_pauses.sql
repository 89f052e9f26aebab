-- question: Where are packets dropped, and who pauses whom?
-- grain: one row per scenario, variant and link with drops or pauses, sorted by drops, then by pauses; there are no rows if switches have unlimited buffers (see switches.buffer), if no buffer fills, or if the estimate is from link cases
-- units: drops are the packets that the switch before the link dropped; paused_ns is how long paused_by, the node after the link, paused the sender; passed_on is true if paused_by is itself paused; all_drops, all_paused_ns and links are totals of all links
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: n count = 20 : number of links to list

WITH chosen AS (
    SELECT scenario, variant, link_id, src_node, dst_node, tier, load, drops, paused_ns
    FROM link_stats
    WHERE (drops > 0 OR paused_ns > 0)
      AND ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), placed AS (
    SELECT *, row_number() OVER (own ORDER BY drops DESC, paused_ns DESC, link_id) AS place,
        CAST(sum(drops) OVER own AS BIGINT) AS all_drops, CAST(sum(paused_ns) OVER own AS BIGINT) AS all_paused_ns,
        count(*) OVER own AS links
    FROM chosen
    WINDOW own AS (PARTITION BY scenario, variant)
)
SELECT
    p.scenario, p.variant, p.place, p.link_id, n.link, p.tier, p.load, p.drops, p.paused_ns,
    CASE WHEN p.paused_ns > 0 THEN b.name END AS paused_by,
    p.paused_ns > 0 AND EXISTS (
        SELECT 1 FROM chosen AS c
        WHERE c.scenario = p.scenario AND c.variant = p.variant AND c.src_node = p.dst_node AND c.paused_ns > 0
    ) AS passed_on,
    p.all_drops, p.all_paused_ns, p.links
FROM placed AS p
LEFT JOIN (SELECT * FROM link_names WHERE $scenario = '' OR scenario = $scenario) AS n
  ON n.scenario = p.scenario AND n.link_id = p.link_id
LEFT JOIN nodes AS b ON b.scenario = p.scenario AND b.node_id = p.dst_node
WHERE p.place <= $n
ORDER BY p.scenario, p.variant, p.place
