-- question: What is the slowdown of each traffic class, and how much of it was marked, dropped or paused?
-- grain: one row per scenario, variant and class with flows; only simulations of the whole network with classes (switches.classes) have rows
-- units: slowdown is FCT / ideal FCT; marks and drops in packets, paused_ns in ns, summed over the links
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run

WITH classes AS (
    SELECT scenario, name AS scenario_name, unnest(from_json(json_extract(spec, '$.classes'),
        '[{"name": "VARCHAR", "queue": "INTEGER", "services": ["VARCHAR"], "vnets": ["VARCHAR"], "dscp": ["SMALLINT"]}]'), recursive := true)
    FROM scenarios
    WHERE $scenario = '' OR scenario = $scenario
), of_services AS (
    SELECT scenario, queue, unnest(services) AS service FROM classes
), of_vnets AS (
    SELECT scenario, queue, unnest(vnets) AS vnet FROM classes
), of_dscp AS (
    SELECT scenario, queue, unnest(dscp) AS dscp FROM classes
), dscps AS (
    SELECT scenario, flow_id, coalesce(dscp, 0) AS dscp FROM flows WHERE scenario IN (SELECT scenario FROM of_dscp)
), picked AS NOT MATERIALIZED (
    SELECT f.scenario, f.variant, coalesce(s.queue, v.queue, d.queue, 0) AS flow_group, f.slowdown AS value
    FROM slowdowns AS f
    LEFT JOIN of_services AS s ON s.scenario = f.scenario AND s.service = f.service
    LEFT JOIN of_vnets AS v ON v.scenario = f.scenario AND v.vnet = f.vnet
    LEFT JOIN dscps AS p ON p.scenario = f.scenario AND p.flow_id = f.flow_id
    LEFT JOIN of_dscp AS d ON d.scenario = f.scenario AND d.dscp = p.dscp
    WHERE f.scenario IN (SELECT scenario FROM classes)
      AND ($scenario = '' OR f.scenario = $scenario)
      AND ($variant = '' OR f.variant = $variant)
), groups AS (
    SELECT scenario, variant, flow_group AS queue, flows, q, max_value AS max_slowdown
    FROM percentiles(picked, [0.5, 0.9, 0.99, 0.999])
), lost AS (
    SELECT scenario, variant, class, CAST(sum(marks) AS BIGINT) AS marks, CAST(sum(drops) AS BIGINT) AS drops,
        CAST(sum(paused_ns) AS BIGINT) AS paused_ns
    FROM link_classes
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY ALL
)
SELECT
    g.scenario, g.variant, c.scenario_name, g.queue, c.name AS class, g.flows,
    g.q[1] AS p50_slowdown, g.q[2] AS p90_slowdown, g.q[3] AS p99_slowdown, g.q[4] AS p999_slowdown,
    g.max_slowdown, l.marks, l.drops, l.paused_ns
FROM groups AS g
JOIN classes AS c ON c.scenario = g.scenario AND c.queue = g.queue
LEFT JOIN lost AS l ON l.scenario = g.scenario AND l.variant = g.variant AND l.class = c.name
ORDER BY g.scenario, g.variant, g.queue
