-- Table rejects: the rows that are not records, because they are refused, broken, or omitted by a WHERE of the
-- mapping.
SELECT CAST($file AS VARCHAR) AS file, "row", reverse, reason, raw
FROM (
  SELECT r."row", r.reverse, r.reason, left(s.raw, 4096) AS raw FROM refused AS r LEFT JOIN staged AS s ON r."row" = s."row"
  UNION ALL SELECT "row", false AS reverse, broken AS reason, left(raw, 4096) FROM staged WHERE broken <> ''
  UNION ALL SELECT "row", false AS reverse, 'left out by the mapping' AS reason, left(raw, 4096) FROM staged
    WHERE $left_out AND broken = '' AND "row" NOT IN (SELECT "row" FROM refused)
      AND "row" NOT IN (SELECT "row" FROM $records)
) ORDER BY "row", reverse
