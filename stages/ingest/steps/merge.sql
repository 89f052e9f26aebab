-- The flows of a part of the pairs of hosts. A record begins another flow of its connection if it starts more than
-- $idle_ns after the end of all records before it. A flow has the size that its best observer counted; if all of
-- them sampled it, their mean: the bytes y through their number, as paths.sql has it. Its start is the latest that agrees
-- with the observer that recorded its beginning first. More than $too_many bytes count as that: squares fit HUGEINT.
WITH marked AS (
  SELECT *, CASE WHEN start_ns > max(end_ns) OVER before + $idle_ns THEN 1 ELSE 0 END AS begins
  FROM $records WHERE (src * 7919 + dst) % $parts = $part
  WINDOW before AS (PARTITION BY $connection ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), numbered AS (
  SELECT *, sum(begins) OVER (PARTITION BY $connection ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING) AS flow
  FROM marked
), observed AS (
  SELECT
    $connection, flow, observer, least(sum(size_bytes::HUGEINT), $too_many) AS size_bytes, min(start_ns) AS start_ns,
    min(resolution_ns) AS resolution_ns, sum(size_bytes::HUGEINT * size_bytes // nullif(samples, 0)) AS n,
    any_value(k) AS k, any_value(prior) AS prior, $kept
  FROM numbered GROUP BY $connection, flow, observer, samples > 0
), bounded AS (
  SELECT *, min(start_ns + resolution_ns) OVER (PARTITION BY $connection, flow) AS until_ns FROM observed
), flows AS (
  SELECT
    $connection, max(size_bytes) FILTER (coalesce(samples, 0) = 0) AS counted, sum(size_bytes) AS y,
    sum(size_bytes * size_bytes) AS squares, sum(least(n, size_bytes * size_bytes)) AS n,
    any_value(k) AS k, any_value(prior) AS prior,
    $latest_start AS start_ns, min(until_ns) - $latest_start AS resolution_ns, $kept
  FROM bounded GROUP BY $connection, flow
), sized AS (
  SELECT *, y * ($once + prior / k) / (CASE WHEN y * y > n THEN y ELSE 0 END + prior) AS mean FROM flows
)
SELECT *, CAST(least(coalesce(counted, greatest(1, round(mean))), $too_many) AS BIGINT) AS size_bytes FROM sized
