-- question: Which links cost each job time?
-- grain: one row per scenario, variant, job and link, for the n links with the largest share of each job
-- units: delay in ns, a sum over the flows of the job's critical path; job_share is a fraction of all delay on that path; other_bytes are what other services send over the link
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means exact: only it finds when flows that wait for others start
-- param: n count = 5 : number of links to list for each job

-- The critical path of a job goes back from the flow that ends last, always to the one that it waited for. Level k of
-- the walk knows of each flow the one 2^k steps back, and marks those on the path that are fewer steps from its end.
WITH RECURSIVE ends AS MATERIALIZED (
    SELECT row_number() OVER () AS n, e.scenario, e.variant, e.flow_row, e.flow_id, f.service AS job, f.start_ns AS earliest_ns,
        e.start_ns, e.start_ns + e.fct_ns AS end_ns, e.ideal_ns, e.fct_ns
    FROM exact_fcts AS e
    JOIN flows AS f ON f.scenario = e.scenario AND f.flow_id = e.flow_id
    WHERE ($scenario = '' OR e.scenario = $scenario)
      AND ($scenario = '' OR f.scenario = $scenario)
      AND e.variant = coalesce(nullif($variant, ''), 'exact')
), waited AS MATERIALIZED (
    SELECT a.n, b.n AS after_n, b.end_ns
    FROM dependencies AS d
    JOIN ends AS a ON a.scenario = d.scenario AND a.flow_id = d.flow_id
    JOIN ends AS b ON b.scenario = d.scenario AND b.variant = a.variant AND b.flow_id = d.after_flow_id
    WHERE ($scenario = '' OR d.scenario = $scenario)
    QUALIFY row_number() OVER (PARTITION BY a.n ORDER BY b.end_ns + d.delay_ns DESC, d.after_flow_id) = 1
), last AS (
    SELECT n
    FROM ends
    SEMI JOIN waited USING (n)
    QUALIFY row_number() OVER (PARTITION BY scenario, variant, job ORDER BY end_ns DESC, flow_id DESC) = 1
), steps AS MATERIALIZED (
    SELECT n, after_n FROM waited
    UNION ALL
    SELECT DISTINCT after_n, NULL FROM waited WHERE after_n NOT IN (SELECT n FROM waited)
), walk AS (
    SELECT 0 AS level, s.n, s.after_n AS back, l.n IS NOT NULL AS on_path
    FROM steps AS s
    LEFT JOIN last AS l ON l.n = s.n
    UNION ALL
    SELECT a.level + 1, a.n, b.back, a.on_path OR c.back IS NOT NULL
    FROM walk AS a
    LEFT JOIN walk AS b ON b.n = a.back
    LEFT JOIN (SELECT DISTINCT back FROM walk WHERE on_path AND back IS NOT NULL) AS c ON c.back = a.n
    WHERE EXISTS (SELECT 1 FROM walk WHERE on_path AND back IS NOT NULL)
), path AS MATERIALIZED (
    SELECT e.*
    FROM walk AS w
    JOIN ends AS e ON e.n = w.n
    WHERE w.on_path
    QUALIFY row_number() OVER (PARTITION BY w.n ORDER BY w.level) = 1
), delays AS (
    SELECT p.scenario, p.variant, p.job, h.link_id, count(*) AS flows, sum(CAST(h.delay_ns AS DECIMAL(30, 3))) AS delay_ns
    FROM path AS p
    JOIN hop_contributions_all AS h ON h.scenario = p.scenario AND h.variant = p.variant AND h.flow_row = p.flow_row
    WHERE ($scenario = '' OR h.scenario = $scenario)
    GROUP BY p.scenario, p.variant, p.job, h.link_id
), placed AS (
    SELECT *,
        row_number() OVER (PARTITION BY scenario, variant, job ORDER BY delay_ns DESC, link_id) AS place,
        sum(delay_ns) OVER (PARTITION BY scenario, variant, job) AS all_ns
    FROM delays
), others AS (
    SELECT t.scenario, t.variant, t.job, t.link_id, sum(f.size_bytes) FILTER (WHERE f.service <> t.job) AS bytes
    FROM placed AS t
    JOIN exact_hops AS x ON x.scenario = t.scenario AND x.variant = t.variant AND x.link_id = t.link_id
    JOIN ends AS e ON e.scenario = x.scenario AND e.variant = x.variant AND e.flow_row = x.flow_row
    JOIN flows AS f ON f.scenario = e.scenario AND f.flow_id = e.flow_id
    WHERE t.place <= $n
    GROUP BY t.scenario, t.variant, t.job, t.link_id
)
SELECT
    t.scenario, t.variant, t.job, t.place, t.link_id, a.name || ' → ' || b.name AS link, k.tier, t.flows,
    CAST(t.delay_ns AS DOUBLE) AS delay_ns, CAST(t.delay_ns AS DOUBLE) / nullif(CAST(t.all_ns AS DOUBLE), 0) AS job_share,
    CAST(coalesce(o.bytes, 0) AS BIGINT) AS other_bytes
FROM placed AS t
LEFT JOIN others AS o ON o.scenario = t.scenario AND o.variant = t.variant AND o.job = t.job AND o.link_id = t.link_id
JOIN links AS k ON k.scenario = t.scenario AND k.link_id = t.link_id
JOIN nodes AS a ON a.scenario = k.scenario AND a.node_id = k.src_node
JOIN nodes AS b ON b.scenario = k.scenario AND b.node_id = k.dst_node
WHERE t.place <= $n
ORDER BY t.scenario, t.variant, t.job, t.place
