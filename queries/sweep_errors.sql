-- question: How does the error of the estimates of a sweep depend on its parameters?
-- grain: one row per scenario, variant, sweep and parameter, for runs that were compared with a simulation of the whole network
-- units: slowdown is FCT / ideal FCT; error is estimate / true_slowdown - 1, error_lo and error_hi its 95% interval
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: sweep text = '' : name of the sweep; empty means all sweeps of the lake
-- param: size_bin text = all : size bin of the flows, such as '<10 KB'; all means all flows
-- param: quantile 0.5|0.9|0.99|0.999 = 0.99 : quantile of slowdown

-- parameter_place, value_place and name are those of question parameter_sweep.
-- include sweep_parameters
SELECT
    p.scenario, p.variant, p.sweep, p.settings, p.parameter,
    CASE WHEN w.parameters = 1 THEN p.word ELSE p.parameter END AS name,
    CAST(row_number() OVER (PARTITION BY p.scenario, p.variant, p.sweep, p.settings ORDER BY p.parameter_at) AS INTEGER) AS parameter_place,
    p.value,
    CAST(dense_rank() OVER (PARTITION BY p.sweep, p.parameter ORDER BY p.value_number NULLS LAST, p.value) AS INTEGER) AS value_place,
    v.flows, v.estimate AS slowdown, v.true_slowdown, v.error, v.error_lo, v.error_hi
FROM picked AS p
JOIN words AS w ON w.sweep = p.sweep AND w.word = p.word
JOIN validations AS v ON v.scenario = p.scenario AND v.variant = p.variant
WHERE ($scenario = '' OR v.scenario = $scenario)
  AND ($variant = '' OR v.variant = $variant)
  AND v.truth = 'exact'
  AND v.size_bin = $size_bin
  AND v.quantile = CAST($quantile AS DOUBLE)
ORDER BY p.sweep, p.settings, parameter_place, p.scenario, p.variant
