-- question: How large is the error of the estimate for each service, compared with a simulation of the whole network?
-- grain: one row per scenario, variant, truth (a run by exact) and service (and one over all services)
-- units: slowdown is FCT / ideal FCT; errors are estimate / truth - 1
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run

-- Both slowdowns are relative to the estimate's ideal FCT, as in table validations. Flows that were not
-- simulated, such as those outside the simulated time range, do not count.
WITH both_fcts AS (
    SELECT s.scenario, s.variant, t.variant AS truth, s.service, s.slowdown AS estimate, t.fct_ns / s.ideal_ns AS true_slowdown
    FROM slowdowns AS s
    JOIN exact_fcts AS t ON t.scenario = s.scenario AND t.flow_row = s.flow_row AND t.variant <> s.variant
    WHERE ($scenario = '' OR (s.scenario = $scenario AND t.scenario = $scenario))
      AND ($variant = '' OR s.variant = $variant)
), groups AS (
    SELECT
        scenario, variant, truth, service, grouping(service) AS whole,
        count(*) AS flows,
        quantile_cont(estimate, [0.5, 0.9, 0.99, 0.999]) AS e,
        quantile_cont(true_slowdown, [0.5, 0.9, 0.99, 0.999]) AS t
    FROM both_fcts
    GROUP BY GROUPING SETS ((scenario, variant, truth, service), (scenario, variant, truth))
)
SELECT
    g.scenario, n.name AS scenario_name, g.variant, g.truth, CASE WHEN g.whole = 1 THEN 'all' ELSE g.service END AS service, g.flows,
    t[1] AS true_p50, t[2] AS true_p90, t[3] AS true_p99, t[4] AS true_p999,
    e[1] / t[1] - 1 AS p50_error, e[2] / t[2] - 1 AS p90_error, e[3] / t[3] - 1 AS p99_error, e[4] / t[4] - 1 AS p999_error
FROM groups AS g
LEFT JOIN scenarios AS n ON n.scenario = g.scenario
ORDER BY g.scenario, g.variant, g.truth, g.whole, g.service
