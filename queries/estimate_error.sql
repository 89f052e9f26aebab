-- question: How far is the estimate from the truth that it was held against?
-- grain: one row per scenario, variant, truth, size bin and quantile
-- units: slowdown is FCT / ideal FCT, no unit; error is estimate / truth - 1, lo and hi the ends of its 95% interval
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means all variants of the lake, with separate rows for each

SELECT v.scenario, v.variant, v.truth, v.size_bin, v.quantile, v.flows, v.estimate, v.true_slowdown, v.error, v.error_lo, v.error_hi
FROM validations AS v
LEFT JOIN size_bins AS b ON b.size_bin = v.size_bin
WHERE ($scenario = '' OR v.scenario = $scenario)
  AND ($variant = '' OR v.variant = $variant)
ORDER BY v.scenario, v.variant, v.truth, b.bin, v.size_bin, v.quantile
