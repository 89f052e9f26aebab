-- question: What does the critical path of each job consist of?
-- grain: one row per scenario, variant, job and kind of flow, for flows on the critical path
-- units: times are sums over these flows, in ns: waited_ns is the time from the end of what a flow waits for to its start, or the duration of a compute step; ideal_ns is the FCT alone in the network; delay_ns is what other flows and windows add; together they are the completion time
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means exact: only it finds when flows that wait for others start

-- include critical_path
-- include path_parts
SELECT
    scenario, variant, job, kind, count(*) FILTER (kind <> 'compute' OR waited_ns > 0) AS flows, CAST(sum(waited_ns) AS BIGINT) AS waited_ns,
    CAST(sum(ideal_ns) AS BIGINT) AS ideal_ns, CAST(sum(delay_ns) AS BIGINT) AS delay_ns
FROM parts
GROUP BY scenario, variant, job, kind
ORDER BY scenario, variant, job, sum(waited_ns + ideal_ns + delay_ns) DESC, kind
