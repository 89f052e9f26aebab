-- The connections that are divided, with the model of each. $flows and $intervals are the tables of the workload, $hosts
-- has the speed of the fastest link of each host, $rules the models of services. Connections for which $whole is
-- true stay whole. Package traffic describes the choice.
WITH connections AS (
  SELECT
    flow_id, count(*) AS intervals, sum(bytes::HUGEINT) AS bytes, min(start_ns) AS first_ns, max(end_ns) AS end_ns,
    sum(end_ns::HUGEINT - start_ns) AS active_ns, CASE WHEN count(packets) = count(*) THEN sum(packets::HUGEINT) END AS packets
  FROM $intervals GROUP BY flow_id
  HAVING NOT ($whole)
)
SELECT
  c.flow_id,
  CAST(CASE
    WHEN r.kind IS NOT NULL THEN r.kind
    WHEN $other_kind >= 0 THEN $other_kind
    WHEN c.bytes <= $ack_packet_bytes * c.packets THEN $paced
    WHEN coalesce(c.bytes >= $small_packet_bytes * c.packets, true)
      AND 8e9 * c.bytes >= $bulk_share * least(a.bps, b.bps) * c.active_ns THEN $bulk
    ELSE $messages
  END AS SMALLINT) AS kind
FROM connections AS c
JOIN $flows AS f ON f.flow_id = c.flow_id
JOIN $hosts AS a ON a.host = f.src
JOIN $hosts AS b ON b.host = f.dst
LEFT JOIN $rules AS r ON r.service = f.service
