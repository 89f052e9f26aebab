-- Restricts the typed rows to those that are not records, and keeps their reasons.
CREATE OR REPLACE TEMP VIEW typed AS FROM $typed ANTI JOIN (SELECT "row" FROM $records) USING ("row");
CREATE OR REPLACE TEMP TABLE refused AS
SELECT "row", reason, set_aside IS NOT NULL OR reason = '$acks_alone' AS aside FROM judged
