-- question: In which minutes, from which racks, or between which racks is the slowdown of a service highest?
-- grain: one row per scenario, variant, service and group of flows, worst first
-- units: slowdown is FCT / ideal FCT; from_ns (included) and to_ns (excluded) in ns; columns that do not define the group are null, as is a rack if the topology has none
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: by rack|pair|minute = rack : what groups the flows: the rack of the sender, the racks of both ends, or the minute of the start
-- param: service text = '' : service; empty means all services, with separate rows for each
-- param: n count = 5 : number of rows to list for each service
-- param: min_flows count = 100 : smallest group that has a row; percentiles of fewer flows are not reliable
-- param: from_ns time = 0 : start of the time range in ns, included
-- param: to_ns time = 9223372036854775807 : end of the time range in ns, excluded

WITH racks AS (
    SELECT scenario, node_id, rack_name FROM nodes WHERE $scenario = '' OR scenario = $scenario
), picked AS NOT MATERIALIZED (
    SELECT
        s.scenario, s.variant, s.slowdown AS value,
        {
            service: s.service,
            src_rack: CASE WHEN $by <> 'minute' THEN a.rack_name END,
            dst_rack: CASE WHEN $by = 'pair' THEN b.rack_name END,
            minute: CASE WHEN $by = 'minute' THEN s.start_ns // CAST(60000000000 AS BIGINT) END
        } AS flow_group
    FROM slowdowns AS s
    LEFT JOIN racks AS a ON a.scenario = s.scenario AND a.node_id = s.src
    LEFT JOIN racks AS b ON b.scenario = s.scenario AND b.node_id = s.dst
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
      AND ($service = '' OR s.service = $service)
      AND s.start_ns >= $from_ns AND s.start_ns < $to_ns
), ranked AS (
    SELECT
        scenario, variant, unnest(flow_group), flows, q, max_value,
        row_number() OVER (PARTITION BY scenario, variant, flow_group.service ORDER BY q[2] DESC, flow_group) AS place
    FROM percentiles(picked, [0.5, 0.99])
    WHERE flows >= $min_flows
)
SELECT
    scenario, variant, service, place, src_rack, dst_rack,
    minute * 60000000000 AS from_ns, (minute + 1) * 60000000000 AS to_ns,
    flows, q[1] AS p50_slowdown, q[2] AS p99_slowdown, max_value AS max_slowdown
FROM ranked
WHERE place <= $n
ORDER BY scenario, variant, service, place
