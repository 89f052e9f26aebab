-- The flows of a part of the pairs of hosts. A record begins another flow of its connection if it starts more than
-- $idle_ns after the end of all records before it. A flow has the size that its best observer counted. If all of them
-- sampled it, it has the sum over intervals of $interval_ns of their mean: the bytes y divided by their number
-- (paths.sql). Observers that count every packet are also resolved by interval if the traffic has moved between them,
-- because then none has counted most of it. A start is the latest that agrees with the observer that recorded its
-- beginning first. More than $too_many bytes count as $too_many, so that squares fit into HUGEINT.
WITH marked AS (
  SELECT *, CASE WHEN start_ns > max(end_ns) OVER before + $idle_ns THEN 1 ELSE 0 END AS begins
  FROM $records WHERE (src * 7919 + dst) % $parts = $part
  WINDOW before AS (PARTITION BY $connection ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), numbered AS (
  SELECT *, sum(begins) OVER (PARTITION BY $connection ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING) AS flow
  FROM marked
), seen AS (
  SELECT
    $connection, flow, observer, start_ns // $interval_ns AS step, least(sum(size_bytes::HUGEINT), $too_many) AS size_bytes,
    min(start_ns) AS start_ns, min(resolution_ns) AS resolution_ns,
    sum(size_bytes::HUGEINT * size_bytes // nullif(samples, 0)) AS n,
    any_value(k) AS k, any_value(prior) AS prior, $kept
  FROM numbered GROUP BY $connection, flow, observer, samples > 0, step
), steps AS (
  SELECT
    $connection, flow, step, max(size_bytes) FILTER (coalesce(samples, 0) = 0) AS counted,
    coalesce(sum(size_bytes) FILTER (samples > 0), 0) AS y, coalesce(sum(size_bytes * size_bytes) FILTER (samples > 0), 0) AS squares,
    coalesce(sum(least(n, size_bytes * size_bytes)) FILTER (samples > 0), 0) AS n, any_value(k) AS k, any_value(prior) AS prior
  FROM seen GROUP BY $connection, flow, step
), estimates AS (
  SELECT $connection, flow, sum(counted) AS moved,
    sum(y * ($once + prior / k) / (CASE WHEN y * y > n THEN y ELSE 0 END + prior)) AS mean
  FROM steps GROUP BY $connection, flow
), observed AS (
  SELECT
    $connection, flow, observer, least(sum(size_bytes), $too_many) AS size_bytes, min(start_ns) AS start_ns,
    min(resolution_ns) AS resolution_ns, $kept
  FROM seen GROUP BY $connection, flow, observer, samples > 0
), bounded AS (
  SELECT *, min(start_ns + resolution_ns) OVER (PARTITION BY $connection, flow) AS until_ns FROM observed
), flows AS (
  SELECT
    $connection, flow, max(size_bytes) FILTER (coalesce(samples, 0) = 0) AS counted,
    $latest_start AS start_ns, min(until_ns) - $latest_start AS resolution_ns, $kept
  FROM bounded GROUP BY $connection, flow
)
SELECT f.*, CAST(least(coalesce(CASE WHEN moved > 1.2 * counted THEN moved ELSE counted END,
  greatest(1, round(mean))), $too_many) AS BIGINT) AS size_bytes
FROM flows AS f JOIN estimates AS e ON $same_connection AND f.flow = e.flow
