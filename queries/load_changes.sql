-- question: Which links have failed, or have another load, compared with a base scenario?
-- grain: one row per scenario, variant, base and link, for the links that failed and the n links with the largest difference of load
-- units: loads are fractions of the link's capacity; bytes without headers; changed_links is the number of all links whose load differs by more than 0.01
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: base_scenario text = '' : scenario id of the base; empty means the scenario from which this one was derived
-- param: base_variant text = '' : variant of the base; empty means the same variant
-- param: n count = 10 : number of links to list

WITH pairs AS (
    SELECT
        k.scenario, k.variant, o.scenario AS base_scenario, CASE WHEN $base_variant = '' THEN k.variant ELSE $base_variant END AS base_variant,
        l.link_id, l.src_node, l.dst_node, l.tier, l.failed, o.failed AS base_failed, o.bandwidth_bps AS base_bandwidth_bps, l.bandwidth_bps,
        coalesce(p.flows, 0) AS base_flows, coalesce(q.flows, 0) AS flows, coalesce(p.bytes, 0) AS base_bytes, coalesce(q.bytes, 0) AS bytes,
        coalesce(p.load, 0) AS base_load, coalesce(q.load, 0) AS load
    FROM (SELECT DISTINCT scenario, variant FROM link_stats WHERE ($scenario = '' OR scenario = $scenario) AND ($variant = '' OR variant = $variant)) AS k
    JOIN scenarios AS x ON x.scenario = k.scenario
    JOIN links AS l ON l.scenario = k.scenario
    JOIN links AS o ON o.scenario = CASE WHEN $base_scenario = '' THEN x.base_id ELSE $base_scenario END
     AND o.link_id = l.link_id AND o.src_node = l.src_node AND o.dst_node = l.dst_node
    LEFT JOIN link_stats AS q ON q.scenario = k.scenario AND q.variant = k.variant AND q.link_id = l.link_id
    LEFT JOIN link_stats AS p ON p.scenario = o.scenario AND p.link_id = l.link_id
     AND p.variant = CASE WHEN $base_variant = '' THEN k.variant ELSE $base_variant END
     AND ($base_scenario = '' OR p.scenario = $base_scenario)
    WHERE ($scenario = '' OR (x.scenario = $scenario AND l.scenario = $scenario))
      AND ($base_scenario = '' OR o.scenario = $base_scenario)
), ranked AS (
    SELECT
        *,
        row_number() OVER (whole ORDER BY abs(load - base_load) DESC, link_id) AS place,
        count(*) OVER whole AS links, count(*) FILTER (abs(load - base_load) > 0.01) OVER whole AS changed_links
    FROM pairs
    WINDOW whole AS (PARTITION BY scenario, variant, base_scenario, base_variant)
)
SELECT
    r.scenario, r.variant, r.base_scenario, r.base_variant, r.place, r.link_id, n.link, r.tier,
    r.failed AND NOT r.base_failed AS newly_failed, r.base_bandwidth_bps, r.bandwidth_bps, r.base_flows, r.flows, r.base_bytes, r.bytes, r.base_load, r.load, r.links, r.changed_links
FROM ranked AS r
LEFT JOIN (SELECT * FROM link_names WHERE $scenario = '' OR scenario = $scenario) AS n
  ON n.scenario = r.scenario AND n.link_id = r.link_id
WHERE r.place <= $n OR (r.failed AND NOT r.base_failed)
ORDER BY r.scenario, r.variant, r.base_scenario, r.base_variant, r.place
