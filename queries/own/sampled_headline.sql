-- The columns of question headline that an estimate from windows has, and the size of the sample.
WITH whole AS (
    SELECT count(*) AS flows, CAST(sum(size_bytes) AS BIGINT) AS bytes, max(start_ns) - min(start_ns) AS span_ns,
        count(DISTINCT service) AS services, count(DISTINCT vnet) AS vnets
    FROM flows WHERE scenario = $scenario
), drawn AS (
    SELECT count(*) AS windows, CAST(sum(flows) AS BIGINT) AS sampled_flows, max(round) AS rounds,
        CAST(median(to_ns - from_ns) AS BIGINT) AS window_ns, max(warmup_ns) AS warmup_ns
    FROM windows WHERE scenario = $scenario AND variant = $variant
), percentiles AS (
    SELECT
        max(estimate) FILTER (quantile = 0.5) AS p50_slowdown, max(lo) FILTER (quantile = 0.5) AS p50_lo,
        max(hi) FILTER (quantile = 0.5) AS p50_hi,
        max(estimate) FILTER (quantile = 0.99) AS p99_slowdown, max(lo) FILTER (quantile = 0.99) AS p99_lo,
        max(hi) FILTER (quantile = 0.99) AS p99_hi,
        max(estimate) FILTER (quantile = 0.999) AS p999_slowdown, max(lo) FILTER (quantile = 0.999) AS p999_lo,
        max(hi) FILTER (quantile = 0.999) AS p999_hi
    FROM intervals
    WHERE scenario = $scenario AND variant = $variant AND service IS NULL AND vnet IS NULL AND size_bin = 'all'
)
SELECT * FROM whole, drawn, percentiles
