-- question: How did the intervals of an estimate from windows of time (run --within) close, round by round?
-- grain: one row per scenario, variant, group of flows, quantile and round of windows
-- units: slowdown is FCT / ideal FCT, no unit, of the whole workload; lo and hi are the ends of its interval, sampling_lo and sampling_hi of the part that is due to windows instead of the whole; half_width is half of that part's width over the slowdown; change, change_lo and change_hi are slowdown, sampling_lo and sampling_hi over the last round's slowdown, less 1
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means all variants of the lake, with separate rows for each

WITH rounds AS (
    SELECT
        *,
        last_value(estimate) OVER (
            PARTITION BY scenario, variant, service, vnet, size_bin, quantile ORDER BY round
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        ) AS last
    FROM sampled_intervals
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
)
SELECT
    r.scenario, r.variant, r.service, r.vnet, r.size_bin, r.quantile, r.round, r.windows, r.sampled_flows,
    r.estimate AS slowdown, r.lo, r.hi, r.sampling_lo, r.sampling_hi,
    (r.sampling_hi - r.sampling_lo) / 2 / r.estimate AS half_width,
    r.estimate / r.last - 1 AS change, r.sampling_lo / r.last - 1 AS change_lo, r.sampling_hi / r.last - 1 AS change_hi
FROM rounds AS r
JOIN size_bins AS b ON b.size_bin = r.size_bin
ORDER BY r.scenario, r.variant, r.service NULLS FIRST, r.vnet NULLS FIRST, b.bin, r.quantile, r.round
