-- question: Which links explain the effect of a change on the slowest flows, according to parsimon compare and what-if?
-- grain: one row per scenario, variant, base of the comparison and link, the largest difference first
-- units: delay in ns, a mean over the flows above the p99 in either scenario; loads are fractions of the link's capacity
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: n count = 10 : number of links to list

SELECT
    c.scenario, c.variant, c.base_scenario, c.base_variant, c.place, c.link_id, a.name || ' → ' || b.name AS link, l.src_node, l.dst_node, l.tier,
    c.base_load, c.load, c.tail_flows, c.base_delay_ns, c.delay_ns, c.delay_ns - c.base_delay_ns AS difference_ns
FROM comparison_links AS c
LEFT JOIN links AS l ON l.scenario = c.scenario AND l.link_id = c.link_id
LEFT JOIN nodes AS a ON a.scenario = c.scenario AND a.node_id = l.src_node
LEFT JOIN nodes AS b ON b.scenario = c.scenario AND b.node_id = l.dst_node
WHERE c.place <= $n
  AND ($scenario = '' OR c.scenario = $scenario)
  AND ($variant = '' OR c.variant = $variant)
ORDER BY c.scenario, c.variant, c.base_scenario, c.base_variant, c.place
