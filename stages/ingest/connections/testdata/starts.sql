-- The flows of a part of the seconds, with drawn starts if they are not known exactly. The flows that a host starts
-- within one resolution are put in random order; their gaps, and one more at the end, are scaled to the resolution.
WITH part AS (
  SELECT * FROM $flows WHERE (start_ns // 1000000000) % $parts = $part
), drawn AS (
  SELECT
    *, start_draw(src, dst, coalesce(protocol, -1), coalesce(src_port, -1), coalesce(dst_port, -1), start_ns) AS draw
  FROM part WHERE resolution_ns > 0
), sums AS (
  SELECT *,
    sum(draw & $gap_mask) OVER (PARTITION BY src, start_ns, resolution_ns ORDER BY draw >> $gap_bits, $connection) AS reached,
    sum(draw & $gap_mask) OVER (PARTITION BY src, start_ns, resolution_ns) AS gaps
  FROM drawn
)
SELECT
  * EXCLUDE (draw, reached, gaps) REPLACE (start_ns + CAST(floor(CAST(reached AS DOUBLE)
    / CAST(gaps + (start_draw(src, -1, -1, -1, -1, start_ns) & $gap_mask) AS DOUBLE) * resolution_ns) AS BIGINT)
    AS start_ns), start_ns AS logged_ns, true AS synthetic_start
FROM sums
UNION ALL BY NAME
SELECT *, start_ns AS logged_ns, samples IS DISTINCT FROM 0 AS synthetic_start
FROM part WHERE resolution_ns = 0
