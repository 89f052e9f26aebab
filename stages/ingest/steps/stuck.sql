-- The start that over half of the rows of a flow log have, although they ended or came over more than $spread_ns.
WITH starts AS (
  SELECT start_ns, count(*) AS n, max(coalesce(received_ns, end_ns)) - min(coalesce(received_ns, end_ns)) AS spread_ns
  FROM typed WHERE start_ns >= $first_ns AND set_aside IS NULL GROUP BY start_ns
)
SELECT max(start_ns) FROM starts
WHERE n > (SELECT sum(n) FROM starts) / 2 AND n >= $least_rows AND spread_ns > $spread_ns
