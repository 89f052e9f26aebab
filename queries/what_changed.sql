-- question: What did a change do to slowdown, as parsimon compare or what-if has found?
-- grain: one row per scenario, variant, base it was compared with and group of flows
-- units: slowdown is FCT / ideal FCT, no unit; change is slowdown / base slowdown - 1, lo and hi the ends of its 95% interval
-- param: scenario text = '' : scenario id; empty means every scenario in the lake, each on its own rows
-- param: variant text = '' : estimator variant; empty means every variant in the lake, each on its own rows

SELECT
    scenario, variant, base_scenario, base_variant, service, vnet, size_bin, hops, flows, quantile,
    base_slowdown, slowdown, change, change_lo, change_hi
FROM comparisons
WHERE ($scenario = '' OR scenario = $scenario)
  AND ($variant = '' OR variant = $variant)
ORDER BY scenario, variant, base_scenario, base_variant, service, vnet, size_bin, hops, quantile
