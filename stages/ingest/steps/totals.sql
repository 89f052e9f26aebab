-- How many records became how many flows, those with starts that are drawn, the first and last start, all
-- bytes, and those of the largest flow.
SELECT (SELECT count(*) FROM $records), count(*), count(*) FILTER (synthetic_start), coalesce(min(start_ns), 0),
  coalesce(max(start_ns), 0), coalesce(sum(size_bytes), 0)::DOUBLE,
  coalesce(max(size_bytes), 0)
FROM $flows
