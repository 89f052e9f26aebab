-- question: How do the parameters of a sweep change slowdown?
-- grain: one row per scenario, variant, sweep and parameter
-- units: slowdown is FCT / ideal FCT; columns of name exact are from a simulation of the whole network, and null if there was none
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: sweep text = '' : name of the sweep; empty means all sweeps of the lake

-- parameter_place is the position of a parameter in the settings of the run, value_place the rank of its value. name is the
-- last word of the parameter, if that distinguishes the parameters of the sweep. label has all values of a run except
-- its seed.
-- include sweep_parameters
, labels AS (
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
