-- The addresses that are not hosts, those with the most bytes first.
SELECT $column, count(*), CAST(least(sum(whole_bytes), 9e18) AS BIGINT) AS bytes
FROM judged WHERE reason = '$reason' GROUP BY ALL ORDER BY bytes DESC, 1 LIMIT $most
