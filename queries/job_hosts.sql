-- question: For which hosts does each job wait?
-- grain: one row per scenario, variant, job and host, for the n hosts with the largest share of each job's critical path
-- units: times are sums over the flows of the job's critical path that the host sends or computes, in ns: waited_ns is the time from the end of what a flow waits for to its start, or the duration of a compute step; ideal_ns is the FCT alone in the network; delay_ns is what other flows and windows add; path_share is a fraction of the completion time
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means exact: only it finds when flows that wait for others start
-- param: n count = 5 : number of hosts to list for each job

-- include critical_path
-- include path_parts
, hosts AS (
    SELECT scenario, variant, job, src, count(*) AS flows, sum(waited_ns) AS waited_ns, sum(ideal_ns) AS ideal_ns,
        sum(delay_ns) AS delay_ns, sum(waited_ns + ideal_ns + delay_ns) AS path_ns
    FROM parts
    GROUP BY scenario, variant, job, src
), placed AS (
    SELECT *,
        row_number() OVER (PARTITION BY scenario, variant, job ORDER BY path_ns DESC, src) AS place,
        sum(path_ns) OVER (PARTITION BY scenario, variant, job) AS all_ns
    FROM hosts
)
SELECT
    h.scenario, h.variant, h.job, h.place, v.name AS host, h.flows, CAST(h.waited_ns AS BIGINT) AS waited_ns,
    CAST(h.ideal_ns AS BIGINT) AS ideal_ns, CAST(h.delay_ns AS BIGINT) AS delay_ns,
    CAST(h.path_ns AS DOUBLE) / nullif(CAST(h.all_ns AS DOUBLE), 0) AS path_share
FROM placed AS h
JOIN nodes AS v ON v.scenario = h.scenario AND v.node_id = h.src
WHERE h.place <= $n
ORDER BY h.scenario, h.variant, h.job, h.place
