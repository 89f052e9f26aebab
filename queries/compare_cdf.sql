-- question: How do the slowdowns of the flows that two estimates have in common compare, as curves?
-- grain: one row per scenario, variant, base scenario, base variant, side (base or change), service, virtual network and step of the curve
-- units: slowdown is FCT / ideal FCT, no unit; shares are fractions of the group's flows; service, vnet null: flows of all
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means all variants of the lake, with separate rows for each
-- param: base_scenario text = '' : scenario id of the base; empty means the one that the scenario was made from
-- param: base_variant text = '' : variant of the base; empty means the same variant
-- param: groups count = 12 : services and virtual networks, those with the most flows, that have curves of their own
-- param: steps count = 50 : steps of a curve for each factor of 10 in slowdown
-- param: min_flows count = 100 : leave out groups with fewer flows

-- A flow is in both if its id, size and start are. Both slowdowns are over the base's ideal FCT, so that
-- a longer path counts as a change.
WITH pairs AS (
    SELECT
        a.scenario, a.variant, b.scenario AS base_scenario, b.variant AS base_variant, a.service, a.vnet,
        CAST(ceil(log10(greatest(b.slowdown, 1)) * $steps) AS INTEGER) AS base_cell,
        CAST(ceil(log10(greatest(a.fct_ns / b.ideal_ns, 1)) * $steps) AS INTEGER) AS cell, count(*) AS n
    FROM slowdowns AS a
    JOIN scenarios AS x ON x.scenario = a.scenario
    JOIN slowdowns AS b
      ON b.flow_id = a.flow_id AND b.size_bytes = a.size_bytes AND b.start_ns = a.start_ns
     AND b.scenario = CASE WHEN $base_scenario = '' THEN x.base_id ELSE $base_scenario END
     AND b.variant = CASE WHEN $base_variant = '' THEN a.variant ELSE $base_variant END
    WHERE ($scenario = '' OR (a.scenario = $scenario AND x.scenario = $scenario))
      AND ($variant = '' OR a.variant = $variant)
      AND ($base_scenario = '' OR b.scenario = $base_scenario)
      AND ($base_variant = '' OR b.variant = $base_variant)
    GROUP BY ALL
), sides AS (
    SELECT scenario, variant, base_scenario, base_variant, side, service, vnet, CASE WHEN side = 'base' THEN base_cell ELSE cell END AS cell, CAST(sum(n) AS BIGINT) AS n
    FROM pairs, (VALUES ('base'), ('change')) AS v(side)
    GROUP BY ALL
), rolled AS (
    SELECT scenario, variant, base_scenario, base_variant, side, service, vnet, cell, CAST(sum(n) AS BIGINT) AS n
    FROM sides
    GROUP BY scenario, variant, base_scenario, base_variant, side, cell, CUBE (service, vnet)
), summed AS (
    SELECT
        *,
        CAST(sum(n) OVER (own ORDER BY cell) AS BIGINT) AS upto, CAST(sum(n) OVER own AS BIGINT) AS flows
    FROM rolled
    WINDOW own AS (PARTITION BY scenario, variant, base_scenario, base_variant, side, service, vnet)
), placed AS (
    SELECT
        *,
        dense_rank() OVER (PARTITION BY scenario, variant, base_scenario, base_variant, side, service IS NULL, vnet IS NULL ORDER BY flows DESC, service, vnet) AS place
    FROM summed
)
SELECT
    scenario, variant, base_scenario, base_variant, side, service, vnet, flows,
    10 ** (cell / CAST($steps AS DOUBLE)) AS slowdown, upto / CAST(flows AS DOUBLE) AS share, 1 - upto / CAST(flows AS DOUBLE) AS slower_share
FROM placed
WHERE place <= $groups AND flows >= $min_flows
ORDER BY scenario, variant, base_scenario, base_variant, side, service NULLS FIRST, vnet NULLS FIRST, cell
