-- What validate --truth log found: the bytes of all links in the log and in the run, the share in slots of links within
-- 1%, and the median duration of transfers relative to the log.
WITH bytes_of_links AS (
    SELECT
        sum(log_bytes) AS log_bytes, sum(simulated_bytes) AS simulated_bytes, sum(earlier_bytes) AS earlier_bytes,
        sum(log_bytes) FILTER (abs(simulated_bytes - log_bytes) <= 0.01 * log_bytes) AS near_bytes
    FROM validation_links WHERE scenario = $scenario AND variant = $variant
)
SELECT
    simulated_bytes / log_bytes - 1 AS difference, coalesce(near_bytes, 0) / log_bytes AS near_share,
    earlier_bytes / log_bytes AS earlier_share,
    (SELECT any_value(estimate / true_slowdown) FROM validations
     WHERE scenario = $scenario AND variant = $variant AND truth = 'log' AND size_bin = 'all' AND quantile = 0.5) AS median_ratio
FROM bytes_of_links WHERE log_bytes > 0
