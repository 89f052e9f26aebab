-- Records of several sources, for a part of their hashes, except those of the source with the lowest number.
INSERT INTO repeated
WITH numbered AS (
  SELECT *, row_number() OVER (PARTITION BY $whole_record, source ORDER BY "row", reverse) AS nth
  FROM $records WHERE hash($record_time) IN (SELECT h FROM twice WHERE h % $parts = $part)
)
SELECT source, "row", reverse FROM numbered
QUALIFY row_number() OVER (PARTITION BY $whole_record, nth ORDER BY source) > 1
