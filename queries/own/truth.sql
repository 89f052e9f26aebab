-- The error of the p99 of an estimate.
SELECT truth, error, error_lo, error_hi FROM validations
WHERE scenario = $scenario AND variant = $variant AND size_bin = 'all' AND quantile = 0.99 ORDER BY truth LIMIT 1
