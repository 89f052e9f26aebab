-- The flows of the critical paths, and what each adds to the completion time.
, parts AS (
    SELECT
        p.scenario, p.variant, p.job, p.src, coalesce(j.kind, 'flow') AS kind, p.ideal_ns, p.fct_ns - p.ideal_ns AS delay_ns,
        p.start_ns - coalesce(w.end_ns, p.earliest_ns) AS waited_ns
    FROM path AS p
    LEFT JOIN job_flows AS j ON j.scenario = p.scenario AND j.flow_id = p.flow_id
    LEFT JOIN waited AS w ON w.n = p.n
)
