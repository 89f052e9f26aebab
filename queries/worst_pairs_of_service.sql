-- question: Between which racks is the slowdown of a service highest?
-- grain: one row per scenario, variant, service and pair of racks, worst first
-- units: slowdown is FCT / ideal FCT, no unit; racks are null where the topology has none
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: service text = '' : service; empty means all services, with separate rows for each
-- param: n count = 5 : number of rows for each service
-- param: min_flows count = 100 : least number of flows; percentiles of fewer are not reliable
-- param: from_ns time = 0 : start of the time range in ns, included
-- param: to_ns time = 9223372036854775807 : end of the time range in ns, excluded

WITH groups AS (
    SELECT
        s.scenario, s.variant, s.service, a.rack AS src_rack, b.rack AS dst_rack,
        a.rack_name AS src_rack_name, b.rack_name AS dst_rack_name,
        count(*) AS flows,
        quantile_cont(s.slowdown, [0.5, 0.99]) AS q,
        max(s.slowdown) AS max_slowdown
    FROM slowdowns AS s
    LEFT JOIN nodes AS a ON a.scenario = s.scenario AND a.node_id = s.src
    LEFT JOIN nodes AS b ON b.scenario = s.scenario AND b.node_id = s.dst
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
      AND ($service = '' OR s.service = $service)
      AND s.start_ns >= $from_ns AND s.start_ns < $to_ns
    GROUP BY ALL
    HAVING count(*) >= $min_flows
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY scenario, variant, service
        ORDER BY q[2] DESC, src_rack NULLS LAST, dst_rack NULLS LAST) AS place
    FROM groups
)
SELECT
    scenario, variant, service, place, src_rack, dst_rack, src_rack_name, dst_rack_name, flows,
    q[1] AS p50_slowdown, q[2] AS p99_slowdown, max_slowdown
FROM ranked
WHERE place <= $n
ORDER BY scenario, variant, service, place
