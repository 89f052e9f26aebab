-- question: When are flows slow, and how much is offered then, by service and virtual network?
-- grain: one row per scenario, variant, service, virtual network and slot of start times
-- units: from_ns and to_ns in ns, from_ns included and to_ns not; time_s is from_ns after the first start, in s; offered_gbps is the bytes of the flows that start in the slot, without headers, over its length; slowdown is FCT / ideal FCT, no unit; service, vnet null: flows of all
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means all variants of the lake, with separate rows for each
-- param: slots count = 60 : slots that the workload's span is cut into
-- param: groups count = 12 : services and virtual networks, those with the most flows, that have rows of their own
-- param: min_flows count = 20 : slots with fewer flows have no percentiles: they would say little

-- A group of the percentiles is a number: that of the group of flows times 100,001, which is more than slots
-- there can be, and the slot.
WITH chosen AS NOT MATERIALIZED (
    SELECT scenario, variant, service, vnet, size_bytes, start_ns, slowdown
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), spans AS NOT MATERIALIZED (
    SELECT scenario, variant, min(start_ns) AS first_ns, (max(start_ns) - min(start_ns)) // $slots + 1 AS slot_ns
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY scenario, variant
), picked AS NOT MATERIALIZED (
    SELECT s.scenario, s.variant, m.group_id * 100001 + (s.start_ns - x.first_ns) // x.slot_ns AS flow_group, s.slowdown AS value
    FROM chosen AS s
    JOIN spans AS x ON x.scenario = s.scenario AND x.variant = s.variant
    JOIN flow_groups(chosen, $groups) AS m ON m.scenario = s.scenario AND m.variant = s.variant AND m.service = s.service AND m.vnet = s.vnet
), offered AS (
    SELECT
        s.scenario, s.variant, m.group_id * 100001 + (s.start_ns - x.first_ns) // x.slot_ns AS flow_group,
        any_value(m.group_service) AS service, any_value(m.group_vnet) AS vnet, any_value((s.start_ns - x.first_ns) // x.slot_ns) AS slot,
        any_value(x.first_ns) AS first_ns, any_value(x.slot_ns) AS slot_ns, CAST(sum(s.size_bytes) AS BIGINT) AS bytes
    FROM chosen AS s
    JOIN spans AS x ON x.scenario = s.scenario AND x.variant = s.variant
    JOIN flow_groups(chosen, $groups) AS m ON m.scenario = s.scenario AND m.variant = s.variant AND m.service = s.service AND m.vnet = s.vnet
    GROUP BY ALL
)
SELECT
    o.scenario, o.variant, o.service, o.vnet,
    o.first_ns + o.slot * o.slot_ns AS from_ns, o.first_ns + (o.slot + 1) * o.slot_ns AS to_ns, o.slot * o.slot_ns / 1e9 AS time_s,
    p.flows, o.bytes, o.bytes * 8.0 / o.slot_ns AS offered_gbps,
    CASE WHEN p.flows >= $min_flows THEN p.q[1] END AS p50_slowdown,
    CASE WHEN p.flows >= $min_flows THEN p.q[2] END AS p90_slowdown,
    CASE WHEN p.flows >= $min_flows THEN p.q[3] END AS p99_slowdown
FROM percentiles(picked, [0.5, 0.9, 0.99]) AS p
JOIN offered AS o ON o.scenario = p.scenario AND o.variant = p.variant AND o.flow_group = p.flow_group
ORDER BY o.scenario, o.variant, o.service NULLS FIRST, o.vnet NULLS FIRST, o.slot
