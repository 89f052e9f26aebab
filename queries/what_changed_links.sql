-- question: Which links explain the effect of a change on the slowest flows, according to parsimon compare and what-if?
-- grain: one row per scenario, variant, base of the comparison and link, the largest difference first
-- units: delays are means over the flows above the p99 of either scenario, in ns; loads are fractions of the link's capacity
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: base_scenario text = '' : scenario id of the base; empty means all bases, with separate rows for each
-- param: base_variant text = '' : variant of the base; empty means all variants
-- param: n count = 10 : number of links to list

SELECT
    c.scenario, c.variant, c.base_scenario, c.base_variant, c.place, c.base_link_id, c.link_id, c.link, c.tier,
    c.base_load, c.load, c.tail_flows, c.base_delay_ns, c.delay_ns, c.delay_ns - c.base_delay_ns AS difference_ns
FROM comparison_links AS c
WHERE c.place <= $n
  AND ($base_scenario = '' OR c.base_scenario = $base_scenario)
  AND ($base_variant = '' OR c.base_variant = $base_variant)
  AND ($scenario = '' OR c.scenario = $scenario)
  AND ($variant = '' OR c.variant = $variant)
ORDER BY c.scenario, c.variant, c.base_scenario, c.base_variant, c.place
