-- For a flow log: the number of rows whose start is the time of their reception, the number of rows with a time, the
-- number of quarters of an hour by which most rows end after they were received (negative: before), and the number of
-- those rows. Table regular_shifts has the numbers of quarters of the regular rows. Rows without a time of reception
-- have no quarters.
SELECT coalesce(sum(received), 0)::BIGINT, coalesce(sum(timed), 0)::BIGINT,
  coalesce(arg_max(quarters, n) FILTER (quarters IS NOT NULL), 0), coalesce(max(n) FILTER (quarters IS NOT NULL), 0),
  coalesce(sum(n) FILTER (quarters IS NOT NULL), 0)::BIGINT
FROM (
  SELECT quarters, sum(n)::BIGINT AS n, sum(received) AS received, sum(timed) AS timed FROM (
    SELECT CASE WHEN given_ns >= $first_ns AND received_ns >= $first_ns AND set_aside IS NULL
        THEN round((coalesce(given_end_ns, given_ns) - received_ns) / 900e9)::BIGINT END AS quarters,
      count(*) AS n, count(*) FILTER (from_reception) AS received, count(*) FILTER (set_aside IS NULL) AS timed
    FROM timed GROUP BY quarters
    UNION ALL SELECT quarters, n, 0, 0 FROM regular_shifts)
  GROUP BY quarters)
