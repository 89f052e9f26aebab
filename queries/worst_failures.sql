-- question: Which cable's failure is worst, as parsimon sweep has found?
-- grain: one row per scenario, variant, tier, service and cable, the n worst of each by p99
-- units: slowdown is FCT / ideal FCT, no unit; a change is over the base, - 1
-- param: scenario text = '' : scenario id of the base; empty means every scenario in the lake, each on its own rows
-- param: variant text = '' : estimator variant; empty means every variant in the lake, each on its own rows
-- param: service text = all : service whose flows count; all means all flows
-- param: n count = 10 : number of cables to list

WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY scenario, variant, tier, service ORDER BY p99_change DESC, node_a, node_b) AS place
    FROM sweeps
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND service = $service
)
SELECT
    scenario, variant, tier, service, place, node_a, node_b, flows, unreachable, estimated,
    p50_slowdown, p90_slowdown, p99_slowdown, p999_slowdown, p50_change, p90_change, p99_change, p999_change
FROM ranked
WHERE place <= $n
ORDER BY scenario, variant, tier, service, place
