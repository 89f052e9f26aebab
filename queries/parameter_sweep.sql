-- question: How do the parameters of a sweep change slowdown?
-- grain: one row per scenario, variant, sweep and parameter
-- units: slowdown is FCT / ideal FCT, no unit; exact is the same by whole-network simulation, null if it was not run
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means all variants of the lake, with separate rows for each
-- param: sweep text = '' : scenario file of the sweep; empty means all sweeps of the lake

SELECT
    scenario, variant, sweep, settings, parameter, value, value_number, flows,
    p50_slowdown, p90_slowdown, p99_slowdown, p999_slowdown, p50_exact, p90_exact, p99_exact, p999_exact, seconds
FROM sweep_runs
WHERE ($scenario = '' OR scenario = $scenario)
  AND ($variant = '' OR variant = $variant)
  AND ($sweep = '' OR sweep = $sweep)
ORDER BY sweep, settings, parameter, scenario, variant
