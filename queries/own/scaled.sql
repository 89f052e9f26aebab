-- The services with another number of flows than in the base, with the factor.
WITH before AS (
    SELECT service, count(*) AS n, sum(size_bytes) AS bytes FROM base_slowdowns GROUP BY service
), after AS (
    SELECT service, count(*) AS n, sum(size_bytes) AS bytes FROM other_slowdowns GROUP BY service
)
SELECT printf('%s %d → %d flows (×%.2f), ×%.2f bytes', service, b.n, coalesce(o.n, 0), coalesce(o.n, 0) / b.n,
    coalesce(o.bytes, 0) / b.bytes)
FROM before AS b
LEFT JOIN after AS o USING (service)
WHERE b.n <> coalesce(o.n, 0)
ORDER BY 1
