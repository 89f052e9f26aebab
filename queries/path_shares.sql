-- question: How are bytes spread over the links that switches choose among?
-- grain: one row per scenario, variant and link between two switches, for switches with several links of the same tier
-- units: bytes are those sent, without headers; share is a fraction of the bytes of the switch's links of this tier, fair_share of their bandwidth; ratio is share / fair_share; spread is the difference between the largest and the smallest ratio of these links
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: switch text = '' : name of a switch; empty means all switches

WITH estimates AS (
    SELECT DISTINCT scenario, variant
    FROM link_stats
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), carried AS (
    SELECT e.scenario, e.variant, a.name AS switch, l.tier, l.link_id, n.link, l.bandwidth_bps,
        coalesce(s.bytes, 0) AS bytes
    FROM estimates AS e
    JOIN links AS l ON l.scenario = e.scenario AND NOT l.failed
    JOIN nodes AS a ON a.scenario = e.scenario AND a.node_id = l.src_node AND a.kind <> 'host'
    JOIN nodes AS b ON b.scenario = e.scenario AND b.node_id = l.dst_node AND b.kind <> 'host'
    JOIN (SELECT * FROM link_names WHERE $scenario = '' OR scenario = $scenario) AS n
      ON n.scenario = e.scenario AND n.link_id = l.link_id
    LEFT JOIN link_stats AS s ON s.scenario = e.scenario AND s.variant = e.variant AND s.link_id = l.link_id
    WHERE $switch = '' OR a.name = $switch
), shared AS (
    SELECT *, count(*) OVER own AS choices, bytes / nullif(sum(bytes) OVER own, 0) AS share,
        bandwidth_bps / sum(bandwidth_bps) OVER own AS fair_share
    FROM carried
    WINDOW own AS (PARTITION BY scenario, variant, switch, tier)
)
SELECT
    scenario, variant, switch, tier, link_id, link, bytes, share, fair_share, share / fair_share AS ratio,
    max(share / fair_share) OVER own - min(share / fair_share) OVER own AS spread
FROM shared
WHERE choices > 1
WINDOW own AS (PARTITION BY scenario, variant, switch, tier)
ORDER BY scenario, variant, switch, tier, link_id
