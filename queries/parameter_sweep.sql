-- question: How do the parameters of a sweep change slowdown?
-- grain: one row per scenario, variant, sweep and parameter
-- units: slowdown is FCT / ideal FCT, no unit; exact is the same by whole-network simulation, null if it was not run
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: sweep text = '' : name of the sweep; empty means all sweeps of the lake

-- parameter_place orders the parameters of a run as its settings do, value_place the values of a parameter. name is
-- the parameter's last word, where that distinguishes the parameters of the sweep. label has the values of a run but
-- for its seed.
WITH picked AS (
    SELECT *,
        regexp_replace(regexp_replace(parameter, '\.(kind|max)$', ''), '^.*\.', '') AS word,
        instr(', ' || settings, ', ' || parameter || '=') AS parameter_at
    FROM sweep_runs
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND ($sweep = '' OR sweep = $sweep)
), words AS (
    SELECT sweep, word, count(DISTINCT parameter) AS parameters
    FROM picked
    GROUP BY ALL
), labels AS (
    SELECT scenario, variant, sweep, settings,
        coalesce(string_agg(value, ' · ' ORDER BY parameter_at) FILTER (parameter <> 'seed'), 'all') AS label
    FROM picked
    GROUP BY ALL
)
SELECT
    p.scenario, p.variant, p.sweep, p.settings, l.label, p.parameter,
    CASE WHEN w.parameters = 1 THEN p.word ELSE p.parameter END AS name,
    CAST(row_number() OVER (PARTITION BY p.scenario, p.variant, p.sweep, p.settings ORDER BY p.parameter_at) AS INTEGER) AS parameter_place,
    p.value, p.value_number,
    CAST(dense_rank() OVER (PARTITION BY p.sweep, p.parameter ORDER BY p.value_number NULLS LAST, p.value) AS INTEGER) AS value_place,
    p.flows, p.p50_slowdown, p.p90_slowdown, p.p99_slowdown, p.p999_slowdown, p.p50_exact, p.p90_exact, p.p99_exact, p.p999_exact, p.seconds
FROM picked AS p
JOIN words AS w ON w.sweep = p.sweep AND w.word = p.word
JOIN labels AS l ON l.scenario = p.scenario AND l.variant = p.variant AND l.sweep = p.sweep AND l.settings = p.settings
ORDER BY p.sweep, p.settings, parameter_place, p.scenario, p.variant
