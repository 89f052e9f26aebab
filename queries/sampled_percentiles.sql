-- question: What is the slowdown, with confidence intervals, in an estimate from windows of time (run --within)?
-- grain: one row per scenario, variant, group of flows and quantile
-- units: slowdown is FCT / ideal FCT, estimated for the whole workload; lo and hi are the bounds of its 95% confidence interval; sampled_share is the share of all flows that are in windows
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run, or, if that has no windows, the variant with the most windows
-- param: groups count = 24 : number of services, and of virtual networks, that have rows; those with the most flows are chosen

WITH drawn AS (
    SELECT w.scenario, w.variant, count(*) AS windows, CAST(sum(w.flows) AS BIGINT) AS sampled_flows
    FROM windows_all AS w
    LEFT JOIN scenarios AS s ON s.scenario = w.scenario
    WHERE ($scenario = '' OR w.scenario = $scenario)
      AND ($variant = '' OR w.variant = $variant)
    GROUP BY w.scenario, w.variant, s.answer
    QUALIFY row_number() OVER (PARTITION BY w.scenario ORDER BY w.variant = s.answer DESC NULLS LAST, count(*) DESC, w.variant) = 1
), found AS (
    SELECT *
    FROM intervals_all
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), whole AS (
    SELECT scenario, variant, flows
    FROM found
    WHERE service IS NULL AND vnet IS NULL AND size_bin = 'all' AND quantile = 0.5
), shares AS (
    SELECT d.scenario, d.variant, d.windows, d.sampled_flows / w.flows AS sampled_share
    FROM drawn AS d
    JOIN whole AS w ON w.scenario = d.scenario AND w.variant = d.variant
), answers AS (
    SELECT
        i.*,
        s.sampled_share < 1 AS sampled,
        s.windows,
        s.sampled_share
    FROM found AS i
    JOIN shares AS s ON s.scenario = i.scenario AND s.variant = i.variant
), sizes AS (
    SELECT scenario, variant, service, vnet, max(flows) AS flows
    FROM answers
    GROUP BY ALL
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY scenario, variant, service IS NULL, vnet IS NULL ORDER BY flows DESC, service, vnet) AS place
    FROM sizes
)
SELECT
    a.scenario, a.variant, a.service, a.vnet, a.size_bin, a.flows, a.quantile, a.estimate AS slowdown, a.lo, a.hi, a.windows, a.sampled_share,
    CASE WHEN a.sampled THEN printf('sampled, %d windows, %.3g%% of flows', a.windows, 100 * a.sampled_share)
         ELSE 'not sampled' END AS estimated_from,
    a.warning
FROM answers AS a
JOIN ranked AS r ON r.scenario = a.scenario AND r.variant = a.variant AND r.service IS NOT DISTINCT FROM a.service
 AND r.vnet IS NOT DISTINCT FROM a.vnet AND r.place <= $groups
ORDER BY a.scenario, a.variant, a.service NULLS FIRST, a.vnet NULLS FIRST, a.size_bin, a.quantile
