-- question: What are the intervals of an estimate from windows of time (run --within) made of?
-- grain: one row per scenario, variant, group of flows, quantile and part of the interval
-- units: lo and hi are the ends of the part over the slowdown, less 1; null for a method's error that was not measured (--check); the parts are in the order in which they are combined, the whole interval is the first
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario

WITH parts AS (
    SELECT
        scenario, variant, service, vnet, size_bin, quantile, estimate,
        unnest([
            {'place': 0, 'part': 'whole interval', 'lo': lo / estimate - 1, 'hi': hi / estimate - 1},
            {'place': 1, 'part': 'windows drawn', 'lo': sampling_lo / estimate - 1, 'hi': sampling_hi / estimate - 1},
            {'place': 2, 'part': 'cut off around windows', 'lo': -cutoff_error, 'hi': cutoff_error},
            {'place': 3, 'part': 'warm-up', 'lo': -warmup_error, 'hi': warmup_error},
            {'place': 4, 'part': 'flows that outlast a window', 'lo': 0.0, 'hi': sustained / estimate - 1},
            {'place': 5, 'part': 'method', 'lo': method_lo / estimate - 1, 'hi': method_hi / estimate - 1}
        ], recursive := true)
    FROM sampled_intervals
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
)
SELECT p.scenario, p.variant, p.service, p.vnet, p.size_bin, p.quantile, p.estimate AS slowdown, p.place, p.part, p.lo, p.hi
FROM parts AS p
JOIN size_bins AS b ON b.size_bin = p.size_bin
ORDER BY p.scenario, p.variant, p.service NULLS FIRST, p.vnet NULLS FIRST, b.bin, p.quantile, p.place
