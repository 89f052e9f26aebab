-- The number of records, by connection and time, that a source has in common with the next one.
WITH counted AS (
  SELECT hash($record_time) AS h, source, count(*) AS n FROM $records WHERE h IN (SELECT h FROM twice) GROUP BY ALL
), pairs AS (
  SELECT lag(source) OVER (PARTITION BY h ORDER BY source) AS earlier, source, n FROM counted
)
SELECT earlier, source, CAST(sum(n) AS BIGINT) FROM pairs WHERE earlier IS NOT NULL GROUP BY ALL
