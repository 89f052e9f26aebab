-- question: How did a change affect slowdown, according to parsimon compare and what-if?
-- grain: one row per scenario, variant, base of the comparison and group of flows
-- units: slowdown is FCT / ideal FCT; change is slowdown / base slowdown - 1, change_lo and change_hi are the bounds of its 95% confidence interval; fct_ms is the FCT at the same quantile
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: groups count = 1000 : number of groups of flows that have rows: all flows, then the groups with the most flows

SELECT
    scenario, variant, base_scenario, base_variant, service, vnet, size_bin, hops, flows, quantile,
    base_slowdown, slowdown, change, change_lo, change_hi,
    base_fct_ns / 1e6 AS base_fct_ms, fct_ns / 1e6 AS fct_ms, fct_change, fct_change_lo, fct_change_hi
FROM comparisons
WHERE ($scenario = '' OR scenario = $scenario)
  AND ($variant = '' OR variant = $variant)
QUALIFY dense_rank() OVER (
    PARTITION BY scenario, variant, base_scenario, base_variant
    ORDER BY service = 'all' AND vnet = 'all' AND size_bin = 'all' AND hops = 'all' DESC, flows DESC, service, vnet, size_bin, hops
) <= $groups
ORDER BY scenario, variant, base_scenario, base_variant, service, vnet, size_bin, hops, quantile
