-- question: How do pairs of parameters of a sweep change slowdown together?
-- grain: one row per scenario, variant, sweep and pair of parameters, which the seed is not counted among
-- units: slowdown is FCT / ideal FCT, no unit; place_a and place_b order the values of all parameters
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means all variants of the lake, with separate rows for each
-- param: sweep text = '' : name of the sweep; empty means all sweeps of the lake

WITH picked AS (
    SELECT *,
        regexp_replace(regexp_replace(parameter, '\.(kind|max)$', ''), '^.*\.', '') AS word,
        instr(', ' || settings, ', ' || parameter || '=') AS parameter_at
    FROM sweep_runs
    WHERE parameter <> 'seed'
      AND ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND ($sweep = '' OR sweep = $sweep)
), words AS (
    SELECT sweep, word, count(DISTINCT parameter) AS parameters
    FROM picked
    GROUP BY ALL
), placed AS (
    SELECT p.*,
        CASE WHEN w.parameters = 1 THEN p.word ELSE p.parameter END AS name,
        dense_rank() OVER (PARTITION BY p.scenario, p.variant, p.sweep, p.settings ORDER BY p.parameter_at) AS parameter_place,
        dense_rank() OVER (PARTITION BY p.sweep, p.parameter ORDER BY p.value_number NULLS LAST, p.value) AS value_place
    FROM picked AS p
    JOIN words AS w ON w.sweep = p.sweep AND w.word = p.word
)
SELECT
    a.scenario, a.variant, a.sweep, a.settings,
    a.parameter AS parameter_a, a.name AS name_a, a.value AS value_a, CAST(1000 * a.parameter_place + a.value_place AS INTEGER) AS place_a,
    b.parameter AS parameter_b, b.name AS name_b, b.value AS value_b, CAST(1000 * b.parameter_place + b.value_place AS INTEGER) AS place_b,
    a.flows, a.p50_slowdown, a.p99_slowdown
FROM placed AS a
JOIN placed AS b ON b.scenario = a.scenario AND b.variant = a.variant AND b.sweep = a.sweep AND b.settings = a.settings
    AND b.parameter_place > a.parameter_place
WHERE ($scenario = '' OR b.scenario = $scenario)
  AND ($variant = '' OR b.variant = $variant)
ORDER BY a.sweep, a.settings, place_a, place_b, a.scenario, a.variant
