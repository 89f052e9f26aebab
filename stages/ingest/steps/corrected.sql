-- The number of records of an earlier source that a later one lacks within its time.
SELECT count(*) FROM (SELECT $whole_record FROM $earlier EXCEPT SELECT $whole_record FROM $later)
WHERE start_ns BETWEEN (SELECT min(start_ns) FROM $later) AND (SELECT max(start_ns) FROM $later)
