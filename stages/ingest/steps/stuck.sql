-- The start that more than half of the rows of a flow log have, although they ended or were received over more than
-- $spread_ns. For all starts: the number of rows, the largest number of rows with one start, and the first and the
-- last end or reception.
WITH starts AS (
  SELECT start_ns, count(*) AS n, min(coalesce(received_ns, end_ns)) AS first_ns, max(coalesce(received_ns, end_ns)) AS last_ns
  FROM typed WHERE start_ns >= $first_ns AND set_aside IS NULL GROUP BY start_ns
), sums AS (
  SELECT coalesce(sum(n), 0)::BIGINT AS n, coalesce(max(n), 0) AS alike,
    coalesce(min(first_ns), 9223372036854775807) AS first_ns, coalesce(max(last_ns), 0) AS last_ns
  FROM starts
)
SELECT
  (SELECT max(s.start_ns) FROM starts AS s
    WHERE s.n > sums.n / 2 AND s.n >= $least_rows AND s.last_ns::HUGEINT - s.first_ns > $spread_ns),
  sums.n, sums.alike, sums.first_ns, sums.last_ns
FROM sums
