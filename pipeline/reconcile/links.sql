-- The bytes of each connection in each slot of time, in the log and in the run. $flows and $intervals are the tables of
-- the workload, $run_flows and $slowdowns those of the run. Slots of $slot_ns begin at $origin_ns. The part of the log
-- lasts from $from_ns to $to_ns; slot $after has what the run sends later. $whole is true for connections that the run
-- sends as one flow. Bytes are divided at whole bytes, so that
-- the slots of a transfer have exactly its bytes.
WITH spans AS (
  SELECT flow_id, $whole AS whole FROM $intervals GROUP BY flow_id
), logged AS (
  SELECT
    f.flow_id AS connection_id, f.src, f.dst, i.start_ns, i.end_ns, i.bytes,
    f.start_ns < $from_ns AND s.whole AS earlier
  FROM $intervals AS i JOIN $flows AS f USING (flow_id) JOIN spans AS s USING (flow_id)
  UNION ALL
  SELECT f.flow_id, f.src, f.dst, f.start_ns, f.start_ns + 1, f.size_bytes, false
  FROM $flows AS f ANTI JOIN spans AS s USING (flow_id)
), sent AS (
  SELECT
    r.connection_id, r.src, r.dst, coalesce(s.start_ns, r.start_ns) AS start_ns,
    coalesce(s.start_ns, r.start_ns) + greatest(1, coalesce(s.fct_ns, 1)) AS end_ns, r.size_bytes AS bytes
  FROM $run_flows AS r LEFT JOIN $slowdowns AS s USING (flow_id)
), transfers AS (
  SELECT connection_id, src, dst, start_ns, end_ns, bytes, true AS of_log, earlier FROM logged
  UNION ALL
  SELECT connection_id, src, dst, start_ns, end_ns, bytes, false, false FROM sent
), cut AS (
  SELECT
    *, unnest(range((greatest(start_ns, $from_ns) - $origin_ns) // $slot_ns,
      (least(end_ns, $to_ns) - 1 - $origin_ns) // $slot_ns + 1)) AS slot
  FROM transfers WHERE start_ns < $to_ns AND end_ns > $from_ns
), pieces AS (
  SELECT
    * EXCLUDE (start_ns, end_ns, bytes),
    bytes::HUGEINT * (least(end_ns, $to_ns, $origin_ns + (slot + 1) * $slot_ns) - start_ns) // (end_ns - start_ns)
      - bytes::HUGEINT * (greatest(start_ns, $from_ns, $origin_ns + slot * $slot_ns) - start_ns) // (end_ns - start_ns) AS bytes
  FROM cut
  UNION ALL
  SELECT
    connection_id, src, dst, of_log, earlier, $after,
    bytes - bytes::HUGEINT * (greatest(start_ns, $to_ns) - start_ns) // (end_ns - start_ns)
  FROM transfers WHERE end_ns > $to_ns AND NOT of_log
)
SELECT
  connection_id, src, dst, slot::BIGINT AS slot,
  coalesce(sum(bytes) FILTER (of_log), 0)::BIGINT AS log_bytes,
  coalesce(sum(bytes) FILTER (NOT of_log), 0)::BIGINT AS simulated_bytes,
  coalesce(sum(bytes) FILTER (earlier), 0)::BIGINT AS earlier_bytes
FROM pieces GROUP BY connection_id, src, dst, slot ORDER BY slot
