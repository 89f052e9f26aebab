-- Restricts the typed rows to those that are not records, and keeps their reasons.
CREATE OR REPLACE TEMP VIEW typed AS FROM directions
ANTI JOIN (SELECT "row", reverse FROM $records) USING ("row", reverse);
CREATE OR REPLACE TEMP TABLE refused AS
SELECT "row", reverse, reason,
  set_aside IS NOT NULL OR reason IN ('$acks_alone', '$no_bytes', '$off_fabric') AS aside FROM judged
