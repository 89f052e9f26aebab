-- question: In which minutes is the slowdown of a service highest?
-- grain: one row per scenario, variant, service and minute of start times, worst first
-- units: slowdown is FCT / ideal FCT, no unit; from_ns (included) and to_ns (excluded) in ns
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: service text = '' : service; empty means all services, with separate rows for each
-- param: n count = 5 : number of rows for each service
-- param: min_flows count = 100 : least number of flows; percentiles of fewer are not reliable
-- param: from_ns time = 0 : start of the time range in ns, included
-- param: to_ns time = 9223372036854775807 : end of the time range in ns, excluded

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, {service: service, minute: start_ns // CAST(60000000000 AS BIGINT)} AS flow_group, slowdown AS value
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND ($service = '' OR service = $service)
      AND start_ns >= $from_ns AND start_ns < $to_ns
), groups AS (
    SELECT scenario, variant, flow_group.service AS service, flow_group.minute AS minute, flows, q, max_value AS max_slowdown
    FROM percentiles(picked, [0.5, 0.99])
    WHERE flows >= $min_flows
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY scenario, variant, service ORDER BY q[2] DESC, minute) AS place
    FROM groups
)
SELECT
    scenario, variant, service, place, minute * 60000000000 AS from_ns, (minute + 1) * 60000000000 AS to_ns, flows,
    q[1] AS p50_slowdown, q[2] AS p99_slowdown, max_slowdown
FROM ranked
WHERE place <= $n
ORDER BY scenario, variant, service, place
