-- Durations of transfers that the log and the run both have: flows of the run that are whole connections with intervals,
-- and flows that are all bytes of an interval (traffic model bulk). The log states the first and the last time of a
-- transfer to within $resolution_ns, and an interval ends $resolution_ns after its last time. Durations below
-- $least resolutions are left out.
WITH connections AS (
  SELECT flow_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM $intervals GROUP BY flow_id
), matched AS (
  SELECT r.flow_id, r.service, false AS bulk, c.end_ns - c.start_ns - $resolution_ns AS fct_ns
  FROM $run_flows AS r JOIN connections AS c ON c.flow_id = r.flow_id
  WHERE r.connection_id = r.flow_id
  UNION ALL
  SELECT r.flow_id, r.service, true, i.end_ns - i.start_ns - $resolution_ns
  FROM $run_flows AS r
  JOIN $intervals AS i ON i.flow_id = r.connection_id AND i.start_ns = r.start_ns AND i.bytes = r.size_bytes
  WHERE r.connection_id <> r.flow_id AND NOT r.background
)
SELECT flow_id, service, bulk, fct_ns FROM matched WHERE fct_ns > 0 AND fct_ns >= $least::BIGINT * $resolution_ns
