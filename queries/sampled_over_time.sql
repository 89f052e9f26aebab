-- question: Which windows of time were drawn and estimated (run --within), how slow are flows in them, and how much is offered over all of the time?
-- grain: one row per scenario, variant, kind (load: a slot of the whole workload's time; window: a window that was drawn) and beginning
-- units: from_ns and to_ns in ns, from_ns included and to_ns not; time_s and end_s are both after the workload's first start, in s; offered_gbps is the bytes of the flows that start between them, without headers, over the time; slowdown is FCT / ideal FCT, no unit, of the window's flows without their weights; round, weight and slowdowns are null for load
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: slots count = 200 : slots of equal length that the workload's time is cut into for the load
-- param: min_flows count = 20 : windows with fewer flows have no percentiles: they would say little

WITH spans AS (
    SELECT scenario, first_start_ns AS first_ns, (last_start_ns - first_start_ns) // $slots + 1 AS slot_ns
    FROM scenarios
    WHERE ($scenario = '' OR scenario = $scenario)
), drawn AS (
    SELECT scenario, variant, "window", round, weight, from_ns, to_ns, flows, bytes
    FROM windows
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), estimates AS (
    SELECT DISTINCT scenario, variant FROM drawn
), loads AS (
    SELECT
        f.scenario, (f.start_ns - x.first_ns) // x.slot_ns AS slot, count(*) AS flows,
        CAST(sum(f.size_bytes) AS BIGINT) AS bytes
    FROM flows AS f
    JOIN spans AS x ON x.scenario = f.scenario
    WHERE ($scenario = '' OR f.scenario = $scenario)
    GROUP BY ALL
), picked AS NOT MATERIALIZED (
    SELECT scenario, variant, "window" AS flow_group, slowdown AS value
    FROM sampled_slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), placed AS (
    SELECT
        e.scenario, e.variant, 'load' AS kind, x.first_ns + l.slot * x.slot_ns AS from_ns,
        x.first_ns + (l.slot + 1) * x.slot_ns AS to_ns, NULL AS round, NULL AS weight, l.flows, l.bytes, NULL AS q
    FROM loads AS l
    JOIN estimates AS e ON e.scenario = l.scenario
    JOIN spans AS x ON x.scenario = l.scenario
    UNION ALL
    SELECT
        d.scenario, d.variant, 'window', d.from_ns, d.to_ns, d.round, d.weight, d.flows, d.bytes,
        CASE WHEN p.flows >= $min_flows THEN p.q END
    FROM drawn AS d
    LEFT JOIN percentiles(picked, [0.5, 0.9, 0.99]) AS p ON p.scenario = d.scenario AND p.variant = d.variant AND p.flow_group = d."window"
)
SELECT
    p.scenario, p.variant, p.kind, p.from_ns, p.to_ns, (p.from_ns - x.first_ns) / 1e9 AS time_s,
    (p.to_ns - x.first_ns) / 1e9 AS end_s, p.round, p.weight, p.flows, p.bytes,
    p.bytes * 8.0 / (p.to_ns - p.from_ns) AS offered_gbps,
    p.q[1] AS p50_slowdown, p.q[2] AS p90_slowdown, p.q[3] AS p99_slowdown
FROM placed AS p
JOIN spans AS x ON x.scenario = p.scenario
ORDER BY p.scenario, p.variant, p.kind, p.from_ns
