-- Start and end of each flow of a job at its sender.
WITH waits AS (
    SELECT scenario, flow_id, max(delay_ns) AS delay_ns
    FROM dependencies
    WHERE ($scenario = '' OR scenario = $scenario)
    GROUP BY scenario, flow_id
), spans AS (
    -- A compute step has no FCT. It lasts from the end of the flow that it waits for to its start.
    SELECT
        e.scenario, e.variant, f.service AS job, f.src, f.flow_id, f.size_bytes, dst.name AS dst_name,
        coalesce(j.kind, CASE WHEN f.size_bytes = 0 THEN 'compute' ELSE 'message' END) AS kind,
        e.start_ns - CASE WHEN f.size_bytes = 0 THEN coalesce(w.delay_ns, 0) ELSE 0 END AS begin_ns,
        e.start_ns + e.fct_ns AS end_ns
    FROM exact_fcts AS e
    JOIN flows AS f ON f.scenario = e.scenario AND f.flow_id = e.flow_id
    JOIN nodes AS dst ON dst.scenario = f.scenario AND dst.node_id = f.dst
    LEFT JOIN waits AS w ON w.scenario = f.scenario AND w.flow_id = f.flow_id
    LEFT JOIN job_flows AS j ON j.scenario = f.scenario AND j.flow_id = f.flow_id
    WHERE ($scenario = '' OR e.scenario = $scenario)
      AND ($scenario = '' OR f.scenario = $scenario)
      AND e.variant = coalesce(nullif($variant, ''), 'exact')
      AND (w.flow_id IS NOT NULL OR j.flow_id IS NOT NULL)
)
