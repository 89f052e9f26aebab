-- For a flow log: the number of rows whose start is the time of their reception, the number of rows with a time, the
-- number of quarters of an hour by which most rows end after they were received (negative: before), and the number of
-- those rows. Table regular_shifts has the numbers of quarters of the regular rows.
WITH shifts AS (
  SELECT quarters, sum(n)::BIGINT AS n FROM (
    SELECT round((coalesce(given_end_ns, given_ns) - received_ns) / 900e9)::BIGINT AS quarters, count(*) AS n
    FROM timed WHERE given_ns >= $first_ns AND received_ns >= $first_ns AND set_aside IS NULL GROUP BY quarters
    UNION ALL FROM regular_shifts)
  GROUP BY quarters
)
SELECT (SELECT count(*) FROM timed WHERE from_reception), (SELECT count(*) FROM timed WHERE set_aside IS NULL),
  coalesce(arg_max(quarters, n), 0), coalesce(max(n), 0), coalesce(sum(n), 0)::BIGINT FROM shifts
