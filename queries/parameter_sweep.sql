-- question: How do the parameters of a sweep change slowdown?
-- grain: one row per run of a sweep and parameter
-- units: slowdown is FCT / ideal FCT, no unit; exact is the same by whole-network simulation, null where there is none
-- param: sweep text = '' : scenario file that was swept; empty means all sweeps of the lake

SELECT
    sweep, scenario, variant, settings, parameter, value, value_number, flows,
    p50_slowdown, p90_slowdown, p99_slowdown, p999_slowdown, p50_exact, p90_exact, p99_exact, p999_exact, seconds
FROM sweep_runs
WHERE $sweep = '' OR sweep = $sweep
ORDER BY sweep, settings, parameter, scenario, variant
