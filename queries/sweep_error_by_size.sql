-- question: How large is the error of the estimates of a sweep, by flow size and percentile?
-- grain: one row per scenario, variant, sweep and size bin, and one per sweep and size bin over all runs, for runs that were compared with a simulation of the whole network
-- units: errors are estimate / truth - 1 of a percentile of slowdown, means over the runs of the row; p99_abs_error is the mean of their absolute values, p99_largest_error the one with the largest absolute value; flows are those of all runs of the row
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: sweep text = '' : name of the sweep; empty means all sweeps of the lake

-- Lists are averaged in the order of their values, so that answers do not depend on the number of threads.
WITH runs AS (
    SELECT DISTINCT scenario, variant, sweep, settings
    FROM sweep_runs
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND ($sweep = '' OR sweep = $sweep)
), errors AS (
    SELECT r.scenario, r.variant, r.sweep, r.settings, v.size_bin, v.quantile, v.flows, v.error
    FROM runs AS r
    JOIN validations AS v ON v.scenario = r.scenario AND v.variant = r.variant
    WHERE ($scenario = '' OR v.scenario = $scenario)
      AND ($variant = '' OR v.variant = $variant)
      AND v.truth = 'exact'
)
SELECT
    scenario, variant, sweep, CASE WHEN grouping(settings) = 1 THEN 'all runs' ELSE settings END AS settings, size_bin,
    CAST(count(DISTINCT (e.scenario, e.variant)) AS INTEGER) AS runs,
    CAST(sum(flows) FILTER (quantile = 0.99) AS BIGINT) AS flows,
    list_avg(list(error ORDER BY error) FILTER (quantile = 0.5)) AS p50_error,
    list_avg(list(error ORDER BY error) FILTER (quantile = 0.9)) AS p90_error,
    list_avg(list(error ORDER BY error) FILTER (quantile = 0.99)) AS p99_error,
    list_avg(list(error ORDER BY error) FILTER (quantile = 0.999)) AS p999_error,
    list_avg(list(abs(error) ORDER BY abs(error)) FILTER (quantile = 0.99)) AS p99_abs_error,
    (list(error ORDER BY abs(error), error) FILTER (quantile = 0.99))[-1] AS p99_largest_error
FROM errors AS e
GROUP BY GROUPING SETS ((sweep, size_bin), (scenario, variant, sweep, settings, size_bin))
ORDER BY
    sweep, grouping(settings) DESC, settings, scenario, variant,
    list_position(['all', '<10 KB', '10-100 KB', '100 KB-1 MB', '>1 MB'], size_bin), size_bin
