-- question: How slow are the flows of each service in each virtual network, and how sure is that?
-- grain: one row per scenario, variant, service, virtual network and quantile
-- units: slowdown is FCT / ideal FCT, no unit; lo and hi are the ends of its 95% interval, null where none is known; service, vnet null: flows of all
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means all variants of the lake, with separate rows for each
-- param: groups count = 24 : services and virtual networks, those with the most flows, that have rows of their own

WITH chosen AS NOT MATERIALIZED (
    SELECT scenario, variant, service, vnet, slowdown
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), picked AS NOT MATERIALIZED (
    SELECT s.scenario, s.variant, {service: m.group_service, vnet: m.group_vnet} AS flow_group, s.slowdown AS value
    FROM chosen AS s
    JOIN flow_groups(chosen, $groups) AS m ON m.scenario = s.scenario AND m.variant = s.variant AND m.service = s.service AND m.vnet = s.vnet
), known AS (
    SELECT scenario, variant, service, vnet, quantile, lo, hi
    FROM intervals
    WHERE size_bin = 'all'
      AND ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), groups AS (
    SELECT scenario, variant, flow_group.service AS service, flow_group.vnet AS vnet, flows, unnest(q) AS slowdown, unnest([0.5, 0.9, 0.99, 0.999]) AS quantile
    FROM percentiles(picked, [0.5, 0.9, 0.99, 0.999])
)
SELECT
    g.scenario, g.variant, g.service, g.vnet, g.flows, CAST(g.quantile AS DOUBLE) AS quantile, g.slowdown, k.lo, k.hi
FROM groups AS g
LEFT JOIN known AS k ON k.scenario = g.scenario AND k.variant = g.variant AND k.quantile = g.quantile
 AND k.service IS NOT DISTINCT FROM g.service AND k.vnet IS NOT DISTINCT FROM g.vnet
ORDER BY g.scenario, g.variant, g.service NULLS FIRST, g.vnet NULLS FIRST, g.quantile
