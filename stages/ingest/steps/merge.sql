-- The flows of a part of the pairs of hosts. A record begins another flow of its connection if it starts more than
-- $idle_ns after the end of all records before it. A flow has the size that its best observer counted. Its start is the
-- latest that agrees with the observer that recorded its beginning first.
WITH marked AS (
  SELECT *, CASE WHEN start_ns > max(end_ns) OVER before + $idle_ns THEN 1 ELSE 0 END AS begins
  FROM $records WHERE (src * 7919 + dst) % $parts = $part
  WINDOW before AS (PARTITION BY $connection ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), numbered AS (
  SELECT *, sum(begins) OVER (PARTITION BY $connection ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING) AS flow
  FROM marked
), observed AS (
  SELECT
    $connection, flow, observer, CAST(sum(size_bytes) AS HUGEINT) AS size_bytes, min(start_ns) AS start_ns,
    min(resolution_ns) AS resolution_ns, $kept
  FROM numbered GROUP BY $connection, flow, observer
), bounded AS (
  SELECT *, min(start_ns + resolution_ns) OVER (PARTITION BY $connection, flow) AS until_ns FROM observed
)
SELECT
  $connection, CAST(least(max(size_bytes), $max_bytes) AS BIGINT) AS size_bytes, $latest_start AS start_ns,
  min(until_ns) - $latest_start AS resolution_ns, $kept
FROM bounded GROUP BY $connection, flow
