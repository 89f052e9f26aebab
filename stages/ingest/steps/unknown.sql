-- The addresses that are not hosts, those with the most bytes first.
SELECT unknown, count(*), CAST(least(sum(unknown_bytes), 9e18) AS BIGINT) AS bytes
FROM refused WHERE reason = '$reason' GROUP BY ALL ORDER BY bytes DESC, 1 LIMIT $most
