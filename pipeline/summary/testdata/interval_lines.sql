-- The intervals of all flows of an estimate, followed by their two parts: the variation of the workload and the method's own error.
SELECT
    string_agg(name || printf(' %.3f to %.3f', lo, hi), ', ' ORDER BY quantile) AS whole,
    string_agg(name || printf(' %.3f to %.3f', workload_lo, workload_hi), ', ' ORDER BY quantile) AS workload,
    string_agg(name || printf(' ±%.1f%%', 100 * method_error), ', ' ORDER BY quantile) AS method
FROM (
    SELECT *, 'p' || replace(CAST(CAST(100 * quantile AS DECIMAL(4, 1)) AS VARCHAR), '.0', '') AS name
    FROM intervals
    WHERE service IS NULL AND vnet IS NULL AND size_bin = 'all'
)
