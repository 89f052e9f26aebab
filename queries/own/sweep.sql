-- The largest sweep of parameters that has the estimate as a run.
SELECT sweep, count(*) AS runs FROM sweep_runs
WHERE variant = $variant AND sweep IN (SELECT sweep FROM sweep_runs WHERE scenario = $scenario AND variant = $variant)
GROUP BY sweep ORDER BY runs DESC, sweep LIMIT 1
