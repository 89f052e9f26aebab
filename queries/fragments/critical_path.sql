-- The critical path of a job leads back from the flow that ends last, always to the flow that was waited for. At level k
-- of the walk, each flow has a link to the flow 2^k steps back, and the flows of the path that are fewer than 2^k steps
-- from its end are marked.
WITH RECURSIVE ends AS MATERIALIZED (
    SELECT row_number() OVER () AS n, e.scenario, e.variant, e.flow_row, e.flow_id, f.service AS job, f.src, f.start_ns AS earliest_ns,
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
)
