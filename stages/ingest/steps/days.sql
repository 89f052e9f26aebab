-- The days, since 1970, in which rows start, with the number of rows.
SELECT start_ns // 86400000000000 AS day, count(*)
FROM timed WHERE start_ns BETWEEN $from_ns AND $max_start_ns AND set_aside IS NULL GROUP BY day
