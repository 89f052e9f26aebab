-- question: Which cable failures increase slowdown most, according to parsimon sweep?
-- grain: one row per scenario, variant, tier, service and cable, for the n cables with the highest p99 of slowdown, or of the FCT if the sweep changes bandwidth or delay
-- units: estimated is the variant; slowdown is FCT / ideal FCT; change is slowdown / slowdown of the base - 1
-- param: scenario text = '' : scenario id of the base; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: service text = all : service of the flows; all means all services
-- param: n count = 10 : number of cables to list

WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY scenario, variant, tier, service
        ORDER BY CASE WHEN regexp_matches(tier, ' (bandwidth|delay) ') THEN p99_fct_ns ELSE p99_change END DESC, node_a, node_b) AS place
    FROM sweeps
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND service = $service
)
SELECT
    r.scenario, variant, tier, service, place, a.name || ':' || b.name AS cable, node_a, node_b, flows, unreachable, estimated,
    p50_slowdown, p90_slowdown, p99_slowdown, p999_slowdown, p50_change, p90_change, p99_change, p999_change,
    p50_fct_ns / 1e6 AS p50_fct_ms, p99_fct_ns / 1e6 AS p99_fct_ms
FROM ranked AS r
LEFT JOIN nodes AS a ON a.scenario = r.scenario AND a.node_id = r.node_a
LEFT JOIN nodes AS b ON b.scenario = r.scenario AND b.node_id = r.node_b
WHERE place <= $n
ORDER BY r.scenario, variant, tier, service, place
