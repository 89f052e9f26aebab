-- question: How slow are flows before, during and after an event, and how many packets are sent again?
-- grain: one row per scenario, variant, phase of the event (before, during: flows that it overlaps, after) and slot of start times
-- units: from_ns (included) and to_ns (excluded) in ns; slowdown is FCT / ideal FCT, no unit; retransmissions, reordered in packets
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: from_ns time = 10000000 : when the event begins, in ns
-- param: to_ns time = 50000000 : when it ends, in ns
-- param: slot_ms positive = 10 : length of a slot in ms, rounded to whole ns

WITH chosen AS NOT MATERIALIZED (
    SELECT scenario, variant, slowdown, retransmissions, reordered,
        start_ns // greatest(1, CAST($slot_ms * 1e6 AS BIGINT)) * 3
            + CASE WHEN start_ns + fct_ns <= $from_ns THEN 0 WHEN start_ns < $to_ns THEN 1 ELSE 2 END AS flow_group
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), picked AS NOT MATERIALIZED (
    SELECT scenario, variant, flow_group, slowdown AS value FROM chosen
), packets AS (
    SELECT scenario, variant, flow_group, CAST(sum(retransmissions) AS BIGINT) AS retransmissions,
        CAST(sum(reordered) AS BIGINT) AS reordered
    FROM chosen GROUP BY ALL
)
SELECT
    g.scenario, g.variant, ['before', 'during', 'after'][g.flow_group % 3 + 1] AS phase,
    g.flow_group // 3 * greatest(1, CAST($slot_ms * 1e6 AS BIGINT)) AS from_ns,
    (g.flow_group // 3 + 1) * greatest(1, CAST($slot_ms * 1e6 AS BIGINT)) AS to_ns,
    g.flows, g.q[1] AS p50_slowdown, g.q[2] AS p99_slowdown, g.max_value AS max_slowdown, p.retransmissions, p.reordered
FROM percentiles(picked, [0.5, 0.99]) AS g
JOIN packets AS p ON p.scenario = g.scenario AND p.variant = g.variant AND p.flow_group = g.flow_group
ORDER BY g.scenario, g.variant, g.flow_group
