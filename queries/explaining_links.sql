-- question: Which links, by name, explain what a change did to the slowest flows?
-- grain: one row per scenario, variant, base it was compared with and link, the largest difference first
-- units: delay in ns, a mean over the flows above the p99 of either scenario; loads are fractions of what the link could carry
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: base_scenario text = '' : scenario id of the base; empty means every base, each on its own rows
-- param: base_variant text = '' : variant of the base; empty means every variant
-- param: n count = 10 : number of links to list

SELECT
    c.scenario, c.variant, c.base_scenario, c.base_variant, c.place, c.link_id, a.name || ' → ' || b.name AS link, l.tier, l.failed,
    c.base_load, c.load, c.tail_flows, c.base_delay_ns, c.delay_ns, c.delay_ns - c.base_delay_ns AS difference_ns
FROM comparison_links AS c
LEFT JOIN links AS l ON l.scenario = c.scenario AND l.link_id = c.link_id
LEFT JOIN nodes AS a ON a.scenario = c.scenario AND a.node_id = l.src_node
LEFT JOIN nodes AS b ON b.scenario = c.scenario AND b.node_id = l.dst_node
WHERE c.place <= $n
  AND ($base_scenario = '' OR c.base_scenario = $base_scenario)
  AND ($base_variant = '' OR c.base_variant = $base_variant)
  AND ($scenario = '' OR c.scenario = $scenario)
  AND ($variant = '' OR c.variant = $variant)
ORDER BY c.scenario, c.variant, c.base_scenario, c.base_variant, c.place
