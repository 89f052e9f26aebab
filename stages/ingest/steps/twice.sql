-- Hashes of records that several sources have, by connection and time, and a table for those that are repeated.
CREATE OR REPLACE TEMP TABLE twice AS
SELECT hash($record_time) AS h, count(*) AS n FROM $records GROUP BY h HAVING min(source) < max(source);
CREATE OR REPLACE TEMP TABLE repeated (source INTEGER, "row" BIGINT, reverse BOOLEAN)
