-- question: What are slowdown and offered load over time, by service and virtual network?
-- grain: one row per scenario, variant, service, virtual network and slot of start times
-- units: from_ns (included) and to_ns (excluded) in ns; time_s is the time from the first start to from_ns, in s; offered_gbps is the bytes of the flows that start in the slot, without headers, over its length; slowdown is FCT / ideal FCT; service or vnet is null for the flows of all
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: slots count = 60 : number of slots into which the time of the workload is divided
-- param: groups count = 12 : number of services, of virtual networks and of pairs of both that have rows; those with the most flows are chosen
-- param: min_flows count = 20 : slots with fewer flows have no percentiles, which would not be reliable

-- The groups of the percentiles are numbers: 100,001, which exceeds the number of slots, times the number of the group
-- of flows, plus the slot.
WITH chosen AS NOT MATERIALIZED (
    SELECT scenario, variant, service, vnet, size_bytes, start_ns, slowdown
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), named AS MATERIALIZED (
    -- The list makes DuckDB's estimate of the number of rows low, which leads to the better order of joins.
    SELECT unnest(list(m), recursive := true) FROM flow_groups(chosen, $groups) AS m
), spans AS (
    SELECT scenario, variant, min(start_ns) AS first_ns, (max(start_ns) - min(start_ns)) // $slots + 1 AS slot_ns
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY scenario, variant
), pairs AS MATERIALIZED (
    SELECT DISTINCT n.scenario, n.variant, n.service, n.vnet, n.pair_id, x.first_ns, x.slot_ns
    FROM named AS n
    JOIN spans AS x ON x.scenario = n.scenario AND x.variant = n.variant
), placed AS NOT MATERIALIZED (
    SELECT s.scenario, s.variant, p.pair_id * 100001 + (s.start_ns - p.first_ns) // p.slot_ns AS flow_group, s.size_bytes, s.slowdown
    FROM chosen AS s
    JOIN pairs AS p ON p.scenario = s.scenario AND p.variant = s.variant AND p.service = s.service AND p.vnet = s.vnet
), picked AS NOT MATERIALIZED (
    SELECT scenario, variant, flow_group, slowdown AS value FROM placed
), sent AS MATERIALIZED (
    SELECT scenario, variant, flow_group, CAST(sum(size_bytes) AS BIGINT) AS bytes FROM placed GROUP BY ALL
), members AS MATERIALIZED (
    SELECT s.scenario, s.variant, s.flow_group, m.group_id * 100001 + s.flow_group % 100001 AS of_group, s.bytes
    FROM sent AS s
    JOIN (SELECT DISTINCT scenario, variant, pair_id, group_id FROM named) AS m ON m.scenario = s.scenario AND m.variant = s.variant AND m.pair_id = s.flow_group // 100001
), offered AS (
    SELECT scenario, variant, of_group, CAST(sum(bytes) AS BIGINT) AS bytes FROM members GROUP BY ALL
), groups AS (
    SELECT DISTINCT n.scenario, n.variant, n.group_id, n.group_service, n.group_vnet, x.first_ns, x.slot_ns
    FROM named AS n
    JOIN spans AS x ON x.scenario = n.scenario AND x.variant = n.variant
)
SELECT
    p.scenario, p.variant, g.group_service AS service, g.group_vnet AS vnet,
    g.first_ns + p.of_group % 100001 * g.slot_ns AS from_ns, g.first_ns + (p.of_group % 100001 + 1) * g.slot_ns AS to_ns,
    p.of_group % 100001 * g.slot_ns / 1e9 AS time_s,
    p.flows, o.bytes, o.bytes * 8.0 / g.slot_ns AS offered_gbps,
    CASE WHEN p.flows >= $min_flows THEN p.q[1] END AS p50_slowdown,
    CASE WHEN p.flows >= $min_flows THEN p.q[2] END AS p90_slowdown,
    CASE WHEN p.flows >= $min_flows THEN p.q[3] END AS p99_slowdown
FROM percentiles_of(picked, members, [0.5, 0.9, 0.99]) AS p
JOIN offered AS o ON o.scenario = p.scenario AND o.variant = p.variant AND o.of_group = p.of_group
JOIN groups AS g ON g.scenario = p.scenario AND g.variant = p.variant AND g.group_id = p.of_group // 100001
ORDER BY p.scenario, p.variant, service NULLS FIRST, vnet NULLS FIRST, from_ns
