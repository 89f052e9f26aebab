-- question: What does each host send and compute at which time?
-- grain: one row per scenario, variant and event: the begin and the end of each flow of a job (ph b, e), the name of each host (ph M); columns of the Trace Event Format, which Perfetto and Chrome draw; pid is the host
-- units: ts in us since the first flow of the workload may start; bytes without headers
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means exact: only it finds when flows that wait for others start

WITH waits AS (
    SELECT scenario, flow_id, max(delay_ns) AS delay_ns
    FROM dependencies
    WHERE ($scenario = '' OR scenario = $scenario)
    GROUP BY scenario, flow_id
), spans AS (
    -- A compute step has no FCT: it lasts from the end of what it waits for to its start.
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
), events AS (
    SELECT
        scenario, variant, CASE WHEN size_bytes = 0 THEN kind ELSE kind || ' to ' || dst_name END AS name, job AS cat,
        unnest(['b', 'e']) AS ph, flow_id AS id, unnest([begin_ns, end_ns]) / 1000 AS ts, src AS pid,
        {'name': CAST(NULL AS VARCHAR), 'size_bytes': size_bytes} AS args
    FROM spans
    UNION ALL
    SELECT DISTINCT
        s.scenario, s.variant, 'process_name', NULL, 'M', NULL, NULL, s.src, {'name': n.name, 'size_bytes': NULL}
    FROM spans AS s
    JOIN nodes AS n ON n.scenario = s.scenario AND n.node_id = s.src
)
SELECT scenario, variant, name, cat, ph, id, ts, pid, pid AS tid, args
FROM events
ORDER BY scenario, variant, ts NULLS FIRST, pid, id, ph
