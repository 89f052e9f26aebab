-- The numbers of records, of flows and of flows with drawn starts, the first and the last start, all bytes, and those
-- of the largest flow.
SELECT (SELECT count(*) FROM $records), count(*), count(*) FILTER (synthetic_start), coalesce(min(start_ns), 0),
  coalesce(max(start_ns), 0), coalesce(sum(size_bytes), 0)::DOUBLE,
  coalesce(max(size_bytes), 0)
FROM $flows
