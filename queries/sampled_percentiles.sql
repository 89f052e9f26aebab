-- question: How slow are the flows, according to estimates from windows of time (run --within), and how sure is that?
-- grain: one row per scenario, variant, group of flows and quantile
-- units: slowdown is FCT / ideal FCT, no unit, of the whole workload; lo and hi are the ends of its interval; sampled_share is of the flows
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means all variants of the lake, with separate rows for each

WITH drawn AS (
    SELECT scenario, variant, count(*) AS windows, CAST(sum(flows) AS BIGINT) AS sampled_flows
    FROM windows
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY scenario, variant
), whole AS (
    SELECT scenario, variant, flows
    FROM intervals
    WHERE service IS NULL AND vnet IS NULL AND size_bin = 'all' AND quantile = 0.5
), shares AS (
    SELECT d.scenario, d.variant, d.windows, d.sampled_flows / w.flows AS sampled_share
    FROM drawn AS d
    JOIN whole AS w ON w.scenario = d.scenario AND w.variant = d.variant
)
SELECT
    i.scenario, i.variant, i.service, i.vnet, i.size_bin, i.flows, i.quantile, i.estimate AS slowdown, i.lo, i.hi,
    s.windows, s.sampled_share,
    CASE WHEN s.sampled_share < 1 THEN printf('sampled, %d windows, %.3g%% of flows', s.windows, 100 * s.sampled_share)
         ELSE 'not sampled' END AS estimated_from,
    i.warning
FROM intervals AS i
JOIN shares AS s ON s.scenario = i.scenario AND s.variant = i.variant
ORDER BY i.scenario, i.variant, i.service NULLS FIRST, i.vnet NULLS FIRST, i.size_bin, i.quantile
