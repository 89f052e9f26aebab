-- question: Which links explain what a change did to the slowest flows, as parsimon compare or what-if has found?
-- grain: one row per scenario, variant, base it was compared with and link, the largest difference first
-- units: delay in ns, a mean over the flows above the p99 of either scenario; loads are fractions of what the link could carry
-- param: scenario text = '' : scenario id; empty means every scenario in the lake, each on its own rows
-- param: variant text = '' : estimator variant; empty means every variant in the lake, each on its own rows
-- param: n count = 10 : number of links to list

SELECT
    c.scenario, c.variant, c.base_scenario, c.base_variant, c.place, c.link_id, l.src_node, l.dst_node, l.tier,
    c.base_load, c.load, c.tail_flows, c.base_delay_ns, c.delay_ns, c.delay_ns - c.base_delay_ns AS difference_ns
FROM comparison_links AS c
LEFT JOIN links AS l ON l.scenario = c.scenario AND l.link_id = c.link_id
WHERE c.place <= $n
  AND ($scenario = '' OR c.scenario = $scenario)
  AND ($variant = '' OR c.variant = $variant)
ORDER BY c.scenario, c.variant, c.base_scenario, c.base_variant, c.place
