-- question: What is the slowdown by rack of the sending host?
-- grain: one row per scenario, variant and rack of the sending host
-- units: slowdown is FCT / ideal FCT, no unit; pod and rack are null where the topology has none
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario

WITH groups AS (
    SELECT
        s.scenario, s.variant, n.pod, n.rack, any_value(n.rack_name) AS rack_name,
        count(*) AS flows,
        quantile_cont(s.slowdown, [0.5, 0.9, 0.99, 0.999]) AS q,
        max(s.slowdown) AS max_slowdown
    FROM slowdowns AS s
    LEFT JOIN nodes AS n ON n.scenario = s.scenario AND n.node_id = s.src
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
    GROUP BY s.scenario, s.variant, n.pod, n.rack
)
SELECT
    scenario, variant, pod, rack, rack_name, flows,
    q[1] AS p50_slowdown, q[2] AS p90_slowdown, q[3] AS p99_slowdown, q[4] AS p999_slowdown,
    max_slowdown
FROM groups
ORDER BY scenario, variant, pod NULLS LAST, rack NULLS LAST
