-- Restricts the typed rows to those that are not records, and keeps their reasons. If an address is not a host, it and
-- the bytes of its rows are kept, too.
CREATE OR REPLACE TEMP VIEW typed AS FROM directions
ANTI JOIN (SELECT "row", reverse FROM $records) USING ("row", reverse);
CREATE OR REPLACE TEMP TABLE refused AS
SELECT "row", reverse, reason,
  set_aside IS NOT NULL OR reason IN ('$acks_alone', '$no_bytes', '$off_fabric') AS aside,
  CASE reason WHEN '$unknown_src' THEN src WHEN '$unknown_dst' THEN dst END AS unknown,
  CASE WHEN unknown IS NOT NULL THEN whole_bytes END AS unknown_bytes
FROM judged
