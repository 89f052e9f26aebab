-- The number of records of a file whose row repeats an earlier one exactly, their bytes, and the numbers of all
-- records and bytes. Samples of packets do not count, because they are alike. Rows are compared only if their records
-- are equal.
WITH alike AS (
  SELECT hash($whole_record) AS h FROM $records WHERE samples = 0 GROUP BY h HAVING count(*) > 1
), texts AS (
  SELECT count(*) - 1 AS again, any_value(size_bytes) AS size_bytes
  FROM (SELECT "row", reverse, size_bytes FROM $records WHERE hash($whole_record) IN (FROM alike)) LEFT JOIN staged USING ("row")
  GROUP BY hash(raw), reverse
)
SELECT coalesce(sum(again), 0)::BIGINT, coalesce(sum(again * size_bytes), 0)::DOUBLE,
  (SELECT count(*) FROM $records), (SELECT coalesce(sum(size_bytes), 0)::DOUBLE FROM $records)
FROM texts
