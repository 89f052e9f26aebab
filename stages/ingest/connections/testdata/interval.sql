-- The time, in ns, over which exporters of a flow are resolved: ten times the duration of records, but at least 5
-- minutes. 99% of the bytes are in records of at most this duration. Records of one flow that last as long as the
-- interval would be divided between intervals in different ways by its exporters.
WITH durations AS (
  SELECT 1 + greatest(0, end_ns - start_ns) // 1000000000 AS seconds, sum(size_bytes::HUGEINT) AS bytes
  FROM $records GROUP BY seconds
), sums AS (
  SELECT seconds, sum(bytes) OVER (ORDER BY seconds) AS upto, sum(bytes) OVER () AS bytes FROM durations
)
SELECT coalesce(greatest(300, least(10 * min(seconds), 10000000)), 300) * 1000000000 FROM sums WHERE 100 * upto >= 99 * bytes
