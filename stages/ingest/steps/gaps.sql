-- Seconds without a flow, in a row, in which a log that is complete would have some: at the mean rate, the number of
-- flows is eight standard deviations above 0, so that in logs with bursts only longer gaps count. Rate and variance are
-- those of all seconds but empty ones that are up to a tenth of the time. The variance is at least that of independent
-- starts: a regular log whose period is not a second has empty seconds, too.
WITH seconds AS (
  SELECT start_ns // 1000000000 AS second, count(*) AS n FROM $flows GROUP BY second
), sums AS (
  SELECT sum(n)::DOUBLE AS n, sum(n * n)::DOUBLE AS squares, count(*) AS filled, max(second) - min(second) + 1 AS all_seconds
  FROM seconds
), rate AS (
  SELECT n / time AS mean, squares / time - (n / time) * (n / time) AS variance
  FROM (SELECT *, greatest(filled, 0.9 * all_seconds)::DOUBLE AS time FROM sums)
), gaps AS (
  SELECT second, second - 1 - lag(second) OVER (ORDER BY second) AS gap FROM seconds
)
SELECT (second - gap) * 1000000000, second * 1000000000
FROM gaps, rate WHERE gap > 0 AND gap * mean * mean > 64 * greatest(variance, mean)
ORDER BY gap DESC, second LIMIT $most
