-- The day, since 1970, in which the median row starts.
WITH days AS (
  SELECT start_ns // 86400000000000 AS day, count(*) AS n
  FROM timed WHERE start_ns BETWEEN $from_ns AND $max_start_ns AND set_aside IS NULL GROUP BY day
), sums AS (
  SELECT day, sum(n) OVER (ORDER BY day) AS upto, sum(n) OVER () AS n FROM days
)
SELECT min(day) FROM sums WHERE 2 * upto >= n
