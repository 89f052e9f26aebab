-- question: What is the slowdown before, during and after an event, and how many packets are retransmitted?
-- grain: one row per scenario, variant, phase and slot of start times; the phase is before, during (flows that overlap the event) or after; slots cover one length of the event before it to two lengths after it; there are no rows if there are no events
-- units: from_ns (included) and to_ns (excluded) of the slot, event_ns and end_ns of the event in ns; slowdown is FCT / ideal FCT; retransmissions, reordered in packets
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: from_ns time = '' : start of the event in ns; the default is the start of the scenario's first event
-- param: to_ns time = '' : end of the event in ns; the default is the end of the scenario's last event
-- param: slot_ms positive = '' : length of a slot in ms, rounded to whole ns; the default is a quarter of the event

-- include event_slots
, chosen AS NOT MATERIALIZED (
    SELECT s.scenario, s.variant, s.slowdown, s.retransmissions, s.reordered,
        s.start_ns // e.slot_ns * 3
            + CASE WHEN s.start_ns + s.fct_ns <= e.event_ns THEN 0 WHEN s.start_ns < e.end_ns THEN 1 ELSE 2 END AS flow_group
    FROM slowdowns AS s
    JOIN event_slots AS e ON e.scenario = s.scenario
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
      AND (s.start_ns // e.slot_ns + 1) * e.slot_ns - e.event_ns > e.event_ns - e.end_ns
      AND (s.start_ns // e.slot_ns * e.slot_ns - e.end_ns) // 2 < e.end_ns - e.event_ns
), picked AS NOT MATERIALIZED (
    SELECT scenario, variant, flow_group, slowdown AS value FROM chosen
), packets AS (
    SELECT scenario, variant, flow_group, CAST(sum(retransmissions) AS BIGINT) AS retransmissions,
        CAST(sum(reordered) AS BIGINT) AS reordered
    FROM chosen GROUP BY ALL
)
SELECT
    g.scenario, g.variant, ['before', 'during', 'after'][g.flow_group % 3 + 1] AS phase,
    g.flow_group // 3 * e.slot_ns AS from_ns, (g.flow_group // 3 + 1) * e.slot_ns AS to_ns,
    g.flows, g.q[1] AS p50_slowdown, g.q[2] AS p99_slowdown, g.max_value AS max_slowdown, p.retransmissions, p.reordered,
    e.event_ns, e.end_ns
FROM percentiles(picked, [0.5, 0.99]) AS g
JOIN event_slots AS e ON e.scenario = g.scenario
JOIN packets AS p ON p.scenario = g.scenario AND p.variant = g.variant AND p.flow_group = g.flow_group
ORDER BY g.scenario, g.variant, g.flow_group
