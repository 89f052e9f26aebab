-- The parameters of the runs of sweeps. parameter_at is the position of a parameter in the settings of the run. word is
-- its last word, and words has the number of parameters of a sweep that share it.
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
)
