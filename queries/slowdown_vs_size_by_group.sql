-- question: How does slowdown depend on flow size for each service and virtual network?
-- grain: one row per scenario, variant, service, virtual network and size bin
-- units: sizes in bytes, size_bytes the geometric middle of the bin; slowdown is FCT / ideal FCT, no unit; service, vnet null: flows of all
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: bins count = 20 : number of bins
-- param: groups count = 12 : services and virtual networks, those with the most flows, that have rows of their own
-- param: min_flows count = 20 : leave out bins with fewer flows: their percentiles say little

-- The bins: equally many flows of the whole workload, flows of one
-- size together. The flows of a service or network are in the bins of the whole workload. A group of the
-- percentiles is a number: that of the group of flows times 100,001, which is more than bins there can be, and the bin.
WITH chosen AS NOT MATERIALIZED (
    SELECT scenario, variant, service, vnet, size_bytes, slowdown
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), named AS MATERIALIZED (
    -- As a list unnested, so that DuckDB estimates that these rows are few, and joins accordingly.
    SELECT unnest(list(m), recursive := true) FROM flow_groups(chosen, $groups) AS m
), pairs AS MATERIALIZED (
    SELECT DISTINCT scenario, variant, service, vnet, pair_id FROM named
), sizes AS (
    SELECT scenario, variant, size_bytes, count(*) AS n
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY scenario, variant, size_bytes
), binned AS MATERIALIZED (
    SELECT
        scenario, variant, size_bytes,
        (CAST(sum(n) OVER (everything ORDER BY size_bytes) AS BIGINT) - n) * $bins // CAST(sum(n) OVER everything AS BIGINT) AS bin
    FROM sizes
    WINDOW everything AS (PARTITION BY scenario, variant)
    QUALIFY bin < $bins -- always true: DuckDB then estimates that sizes are fewer than flows
), picked AS NOT MATERIALIZED (
    SELECT s.scenario, s.variant, p.pair_id * 100001 + b.bin AS flow_group, s.slowdown AS value
    FROM chosen AS s
    JOIN pairs AS p ON p.scenario = s.scenario AND p.variant = s.variant AND p.service = s.service AND p.vnet = s.vnet
    -- A left join, whose order stays: DuckDB may join the services with the sizes first, which are both many.
    LEFT JOIN binned AS b ON b.scenario = s.scenario AND b.variant = s.variant AND b.size_bytes = s.size_bytes
), bins AS MATERIALIZED (
    SELECT scenario, variant, bin, min(size_bytes) AS size_min_bytes, max(size_bytes) AS size_max_bytes
    FROM binned
    GROUP BY scenario, variant, bin
), members AS MATERIALIZED (
    SELECT m.scenario, m.variant, m.pair_id * 100001 + b.bin AS flow_group, m.group_id * 100001 + b.bin AS of_group
    FROM (SELECT DISTINCT scenario, variant, pair_id, group_id FROM named) AS m
    JOIN bins AS b ON b.scenario = m.scenario AND b.variant = m.variant
), groups AS (
    SELECT DISTINCT scenario, variant, group_id, group_service, group_vnet FROM named
)
SELECT
    p.scenario, p.variant, g.group_service AS service, g.group_vnet AS vnet, b.bin, b.size_min_bytes, b.size_max_bytes,
    sqrt(CAST(b.size_min_bytes AS DOUBLE) * b.size_max_bytes) AS size_bytes, p.flows,
    p.q[1] AS p50_slowdown, p.q[2] AS p95_slowdown, p.q[3] AS p99_slowdown
FROM percentiles_of(picked, members, [0.5, 0.95, 0.99]) AS p
JOIN groups AS g ON g.scenario = p.scenario AND g.variant = p.variant AND g.group_id = p.of_group // 100001
JOIN bins AS b ON b.scenario = p.scenario AND b.variant = p.variant AND b.bin = p.of_group % 100001
WHERE p.flows >= $min_flows
ORDER BY p.scenario, p.variant, service NULLS FIRST, vnet NULLS FIRST, b.bin
