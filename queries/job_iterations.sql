-- question: How long does each iteration of each job take?
-- grain: one row per scenario, variant, job and iteration; there are no rows if there are no jobs
-- units: bytes without headers; times in ns; an iteration lasts from the end of the previous one, or the start of the job, to its last delivery; completion_ns is the time from the start of the job to the end of its last iteration
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means exact: only it finds when flows that wait for others start

-- In a flow file, which has no jobs, each service with flows that wait for others counts as a job of one iteration.
WITH waiting AS (
    SELECT DISTINCT f.scenario, f.service
    FROM flows AS f
    JOIN dependencies AS d ON d.scenario = f.scenario AND d.flow_id = f.flow_id
    WHERE ($scenario = '' OR f.scenario = $scenario)
      AND ($scenario = '' OR d.scenario = $scenario)
), parts AS (
    SELECT f.scenario, f.service AS job, coalesce(j.iteration, 0) AS iteration, f.flow_id, f.size_bytes,
        min(f.start_ns) OVER (PARTITION BY f.scenario, f.service) AS job_start_ns
    FROM flows AS f
    SEMI JOIN waiting AS w ON w.scenario = f.scenario AND w.service = f.service
    LEFT JOIN job_flows AS j ON j.scenario = f.scenario AND j.flow_id = f.flow_id
    WHERE ($scenario = '' OR f.scenario = $scenario)
), ends AS (
    SELECT p.scenario, e.variant, p.job, p.iteration, any_value(p.job_start_ns) AS job_start_ns,
        count(*) FILTER (WHERE p.size_bytes > 0) AS flows, CAST(sum(p.size_bytes) AS BIGINT) AS bytes,
        min(e.start_ns) AS start_ns, max(e.start_ns + e.fct_ns) AS last_ns
    FROM exact_fcts AS e
    JOIN parts AS p ON p.scenario = e.scenario AND p.flow_id = e.flow_id
    WHERE ($scenario = '' OR e.scenario = $scenario)
      AND e.variant = coalesce(nullif($variant, ''), 'exact')
    GROUP BY p.scenario, e.variant, p.job, p.iteration
), ordered AS (
    SELECT *, max(last_ns) OVER (PARTITION BY scenario, variant, job ORDER BY iteration) AS end_ns
    FROM ends
)
SELECT
    scenario, variant, job, iteration, flows, bytes, start_ns, end_ns,
    end_ns - coalesce(lag(end_ns) OVER job, job_start_ns) AS iteration_ns,
    max(end_ns) OVER (PARTITION BY scenario, variant, job) - job_start_ns AS completion_ns
FROM ordered
WINDOW job AS (PARTITION BY scenario, variant, job ORDER BY iteration)
ORDER BY scenario, variant, job, iteration
