-- question: What does the critical path of each job consist of?
-- grain: one row per scenario, variant, job and kind of flow, for flows on the critical path
-- units: times in ns, sums over these flows: waited_ns from what they waited for, or the start of the job, to their start (the time to compute, of compute steps), ideal_ns alone in the network, delay_ns what other flows and windows add; they sum to the completion time
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means exact: only it finds when flows that wait for others start

-- The critical path of a job goes back from the flow that ends last, always to the one that it waited for.
WITH RECURSIVE ends AS MATERIALIZED (
    SELECT e.scenario, e.variant, e.flow_row, e.flow_id, f.service AS job, e.start_ns, e.start_ns + e.fct_ns AS end_ns, e.ideal_ns, e.fct_ns
    FROM exact_fcts AS e
    JOIN flows AS f ON f.scenario = e.scenario AND f.flow_id = e.flow_id
    WHERE ($scenario = '' OR e.scenario = $scenario)
      AND ($scenario = '' OR f.scenario = $scenario)
      AND e.variant = coalesce(nullif($variant, ''), 'exact')
), waited AS MATERIALIZED (
    SELECT b.scenario, b.variant, d.flow_id, d.after_flow_id
    FROM dependencies AS d
    JOIN ends AS b ON b.scenario = d.scenario AND b.flow_id = d.after_flow_id
    WHERE ($scenario = '' OR d.scenario = $scenario)
    QUALIFY row_number() OVER (PARTITION BY b.scenario, b.variant, d.flow_id ORDER BY b.end_ns + d.delay_ns DESC, d.after_flow_id) = 1
), path AS (
    SELECT scenario, variant, job, flow_id
    FROM (
        SELECT e.scenario, e.variant, e.job, e.flow_id
        FROM ends AS e
        JOIN waited AS w ON w.scenario = e.scenario AND w.variant = e.variant AND w.flow_id = e.flow_id
        QUALIFY row_number() OVER (PARTITION BY e.scenario, e.variant, e.job ORDER BY e.end_ns DESC, e.flow_id DESC) = 1
    )
    UNION ALL
    SELECT p.scenario, p.variant, p.job, w.after_flow_id
    FROM path AS p
    JOIN waited AS w ON w.scenario = p.scenario AND w.variant = p.variant AND w.flow_id = p.flow_id
)
, parts AS (
    SELECT
        p.scenario, p.variant, p.job, coalesce(j.kind, 'flow') AS kind, e.ideal_ns, e.fct_ns - e.ideal_ns AS delay_ns,
        e.start_ns - coalesce(b.end_ns, f.start_ns) AS waited_ns
    FROM path AS p
    JOIN ends AS e ON e.scenario = p.scenario AND e.variant = p.variant AND e.flow_id = p.flow_id
    JOIN flows AS f ON f.scenario = p.scenario AND f.flow_id = p.flow_id
    LEFT JOIN job_flows AS j ON j.scenario = p.scenario AND j.flow_id = p.flow_id
    LEFT JOIN waited AS w ON w.scenario = p.scenario AND w.variant = p.variant AND w.flow_id = p.flow_id
    LEFT JOIN ends AS b ON b.scenario = w.scenario AND b.variant = w.variant AND b.flow_id = w.after_flow_id
)
SELECT
    scenario, variant, job, kind, count(*) AS flows, CAST(sum(waited_ns) AS BIGINT) AS waited_ns,
    CAST(sum(ideal_ns) AS BIGINT) AS ideal_ns, CAST(sum(delay_ns) AS BIGINT) AS delay_ns
FROM parts
GROUP BY scenario, variant, job, kind
ORDER BY scenario, variant, job, sum(waited_ns + ideal_ns + delay_ns) DESC, kind
