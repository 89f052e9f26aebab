-- View timed: the typed rows with the times that count. The start of a row of a flow log is not a time if it is
-- missing, before the year 2000, more than $skew_ns after the row was received, or equal to $stuck. $stuck is the
-- start that most rows have although they were received over a long time, because exporters without a clock write 0 or
-- the time at which they started. Such a row counts at the time of its reception, if the format states it. An end
-- before 2000 is unknown. View given is not a common table expression, which DuckDB 1.4 would bind twice. Nested ones
-- take twice as long at each level.
CREATE OR REPLACE TEMP VIEW given AS
SELECT * EXCLUDE (start_ns, end_ns, start_resolution_ns), start_ns AS given_ns,
  start_resolution_ns AS given_resolution_ns, CASE WHEN NOT $is_log OR end_ns >= $first_ns THEN end_ns END AS given_end_ns,
  $is_log AND (start_ns IS NULL OR start_ns < $first_ns OR start_ns = $stuck
    OR coalesce(start_ns - $skew_ns > received_ns, false)) AS no_start,
  no_start AND received_ns >= $first_ns AS from_reception,
  CASE WHEN start_ns <> $stuck AND end_ns - start_ns BETWEEN 0 AND $longest_ns THEN end_ns - start_ns ELSE 0 END AS lasted_ns
FROM typed;
CREATE OR REPLACE TEMP VIEW timed AS
SELECT *, CASE WHEN from_reception THEN received_ns - lasted_ns ELSE given_ns END AS start_ns,
  CASE WHEN from_reception THEN received_ns ELSE given_end_ns END AS end_ns,
  CASE WHEN NOT from_reception THEN given_resolution_ns WHEN received_ns % 1000000000 = 0 THEN 1000000000
    ELSE 1000000 END AS start_resolution_ns
FROM given
