-- question: What does each host send and compute at which time?
-- grain: one row per scenario, variant and event: the begin and the end of each flow of a job (ph b, e), the name of each host (ph M); columns of the Trace Event Format, which Perfetto and Chrome draw; pid is the host
-- units: ts in us since the first flow of the workload may start; bytes without headers
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means exact: only it finds when flows that wait for others start

-- include job_spans
, events AS (
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
