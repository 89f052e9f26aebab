-- The bytes that the log has between $from_ns and $to_ns, by host and direction, and those of transfers that began
-- before. $flows and $intervals are the tables of the workload, $divided has the connections that are divided. Within
-- an interval, bytes are spread evenly.
WITH logged AS (
  SELECT
    f.src, f.dst, f.start_ns < $from_ns AND d.flow_id IS NULL AS earlier,
    i.bytes::DOUBLE * (least(i.end_ns, $to_ns)::DOUBLE - greatest(i.start_ns, $from_ns)) / (i.end_ns - i.start_ns) AS bytes
  FROM $intervals AS i JOIN $flows AS f USING (flow_id) LEFT JOIN $divided AS d USING (flow_id)
  WHERE i.start_ns < $to_ns AND i.end_ns > $from_ns
  UNION ALL
  SELECT f.src, f.dst, false, f.size_bytes
  FROM $flows AS f ANTI JOIN $intervals AS i USING (flow_id)
  WHERE f.start_ns >= $from_ns AND f.start_ns < $to_ns
), ends AS (
  SELECT src AS host, true AS sends, earlier, bytes FROM logged
  UNION ALL
  SELECT dst, false, earlier, bytes FROM logged
)
SELECT host, sends, round(sum(bytes)) AS bytes, round(coalesce(sum(bytes) FILTER (earlier), 0)) AS earlier_bytes
FROM ends GROUP BY host, sends ORDER BY earlier_bytes DESC, host, sends
