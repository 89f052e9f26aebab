-- The error of the p99 of an estimate. Durations of a flow log (truth 'log') are no simulation of the network.
SELECT truth, error, error_lo, error_hi FROM validations
WHERE scenario = $scenario AND variant = $variant AND size_bin = 'all' AND quantile = 0.99 AND truth <> 'log' ORDER BY truth LIMIT 1
