-- question: How does slowdown depend on flow size for each service and virtual network?
-- grain: one row per scenario, variant, service, virtual network and size bin
-- units: sizes in bytes, size_bytes the geometric middle of the bin; slowdown is FCT / ideal FCT; service or vnet is null for the flows of all
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: bins count = 20 : number of bins
-- param: groups count = 12 : number of services, of virtual networks and of pairs of both that have rows; those with the most flows are chosen
-- param: min_flows count = 20 : smallest bin that has a row; percentiles of fewer flows are not reliable

-- Each bin has about the same number of flows of the whole workload. Flows of the same size are in the same bin. All
-- services and networks have the same bins. The groups of the percentiles are numbers: 100,001, which exceeds the number of
-- bins, times the number of the group of flows, plus the bin.
WITH chosen AS NOT MATERIALIZED (
    SELECT scenario, variant, service, vnet, size_bytes, slowdown
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), named AS MATERIALIZED (
    -- The list makes DuckDB's estimate of the number of rows low, which leads to the better order of joins.
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
    -- A left join keeps its place. DuckDB might otherwise join services and sizes first, which both have many rows.
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
