-- question: How far is the estimate from the simulation of the whole network, service by service?
-- grain: one row per scenario, variant, truth, service and quantile, for scenarios simulated with --exact
-- units: slowdown is FCT / ideal FCT, over the estimate's ideal; error is estimate / truth - 1
-- param: scenario text = '' : scenario id; empty means every scenario in the lake, each on its own rows
-- param: variant text = '' : estimator variant; empty means every variant in the lake, each on its own rows

-- Flows that have both. A truth is a variant of exact_fcts. Every flow counts for its service and for 'all'.
WITH pairs AS (
    SELECT s.scenario, s.variant, e.variant AS truth, s.service, s.slowdown, greatest(e.fct_ns / CAST(s.ideal_ns AS DOUBLE), 1) AS true_slowdown
    FROM slowdowns AS s
    JOIN exact_fcts AS e ON e.scenario = s.scenario AND e.flow_id = s.flow_id
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($scenario = '' OR e.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
), groups AS (
    SELECT scenario, variant, truth, CASE WHEN GROUPING(service) = 1 THEN 'all' ELSE service END AS service, GROUPING(service) AS whole, count(*) AS flows,
        quantile_cont(slowdown, [0.5, 0.9, 0.99, 0.999]) AS q, quantile_cont(true_slowdown, [0.5, 0.9, 0.99, 0.999]) AS t
    FROM pairs
    GROUP BY GROUPING SETS ((scenario, variant, truth, service), (scenario, variant, truth))
)
SELECT scenario, variant, truth, service, flows, [0.5, 0.9, 0.99, 0.999][k] AS quantile, q[k] AS estimate, t[k] AS true_slowdown, q[k] / t[k] - 1 AS error
FROM groups, range(1, 5) AS numbers(k)
ORDER BY scenario, variant, truth, whole, service, quantile
