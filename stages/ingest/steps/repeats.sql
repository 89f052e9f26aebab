-- The records of a file whose row repeats an earlier one to the byte, their bytes, and all records and bytes. Samples
-- of packets do not count: they are alike. Rows are compared only where records are equal.
WITH alike AS (
  SELECT hash($whole_record) AS h FROM $records WHERE samples = 0 GROUP BY h HAVING count(*) > 1
), texts AS (
  SELECT count(*) - 1 AS again, any_value(size_bytes) AS size_bytes
  FROM (SELECT "row", reverse, size_bytes FROM $records WHERE hash($whole_record) IN (FROM alike)) JOIN staged USING ("row")
  GROUP BY hash(raw), reverse
)
SELECT coalesce(sum(again), 0)::BIGINT, coalesce(sum(again * size_bytes), 0)::DOUBLE,
  (SELECT count(*) FROM $records), (SELECT coalesce(sum(size_bytes), 0)::DOUBLE FROM $records)
FROM texts
