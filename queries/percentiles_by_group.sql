-- question: How slow are the flows of each service in each virtual network, with confidence intervals?
-- grain: one row per scenario, variant, service, virtual network and quantile
-- units: slowdown is FCT / ideal FCT; lo and hi are the bounds of its 95% confidence interval, null if it is unknown; service or vnet is null for the flows of all
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: groups count = 24 : number of services, of virtual networks and of pairs of both that have rows; those with the most flows are chosen

WITH chosen AS NOT MATERIALIZED (
    SELECT scenario, variant, service, vnet, slowdown
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), named AS MATERIALIZED (
    -- The list makes DuckDB's estimate of the number of rows low, which leads to the better order of joins.
    SELECT unnest(list(m), recursive := true) FROM flow_groups(chosen, $groups) AS m
), pairs AS MATERIALIZED (
    SELECT DISTINCT scenario, variant, service, vnet, pair_id FROM named
), members AS MATERIALIZED (
    SELECT DISTINCT scenario, variant, pair_id AS flow_group, group_id AS of_group FROM named
), picked AS NOT MATERIALIZED (
    SELECT s.scenario, s.variant, p.pair_id AS flow_group, s.slowdown AS value
    FROM chosen AS s
    JOIN pairs AS p ON p.scenario = s.scenario AND p.variant = s.variant AND p.service = s.service AND p.vnet = s.vnet
), known AS (
    SELECT scenario, variant, service, vnet, quantile, lo, hi
    FROM intervals
    WHERE size_bin = 'all'
      AND ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), names AS (
    SELECT DISTINCT scenario, variant, group_id, group_service, group_vnet FROM named
), groups AS (
    SELECT
        p.scenario, p.variant, n.group_service AS service, n.group_vnet AS vnet, p.flows,
        unnest(p.q) AS slowdown, unnest([0.5, 0.9, 0.99, 0.999]) AS quantile
    FROM percentiles_of(picked, members, [0.5, 0.9, 0.99, 0.999]) AS p
    JOIN names AS n ON n.scenario = p.scenario AND n.variant = p.variant AND n.group_id = p.of_group
)
SELECT
    g.scenario, g.variant, g.service, g.vnet, g.flows, CAST(g.quantile AS DOUBLE) AS quantile, g.slowdown, k.lo, k.hi
FROM groups AS g
LEFT JOIN known AS k ON k.scenario = g.scenario AND k.variant = g.variant AND k.quantile = g.quantile
 AND k.service IS NOT DISTINCT FROM g.service AND k.vnet IS NOT DISTINCT FROM g.vnet
ORDER BY g.scenario, g.variant, g.service NULLS FIRST, g.vnet NULLS FIRST, g.quantile
