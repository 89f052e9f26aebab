-- question: How many flows miss a slowdown objective, by service and hour?
-- grain: one row per scenario, variant, service and hour of start times
-- units: from_ns is the start of the hour in ns; slowdown is FCT / ideal FCT; miss_share is a fraction of the flows, miss_byte_share of the bytes
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: slo positive = 10 : slowdown above which a flow misses the objective
-- param: from_ns time = 0 : start of the time range in ns, included
-- param: to_ns time = 9223372036854775807 : end of the time range in ns, excluded

SELECT
    scenario, variant, service,
    (start_ns // CAST(3600000000000 AS BIGINT)) * 3600000000000 AS from_ns,
    count(*) AS flows,
    count(*) FILTER (WHERE slowdown > $slo) AS misses,
    count(*) FILTER (WHERE slowdown > $slo) / CAST(count(*) AS DOUBLE) AS miss_share,
    coalesce(CAST(sum(size_bytes) FILTER (WHERE slowdown > $slo) AS DOUBLE), 0) / CAST(sum(size_bytes) AS DOUBLE) AS miss_byte_share,
    max(slowdown) AS max_slowdown
FROM slowdowns
WHERE ($scenario = '' OR scenario = $scenario)
  AND ($variant = '' OR variant = $variant)
  AND start_ns >= $from_ns AND start_ns < $to_ns
GROUP BY ALL
ORDER BY scenario, variant, service, from_ns
