-- question: Which links delay each job, and behind which services?
-- grain: one row per scenario, variant, job and link, for the n links with the largest share of each job
-- units: delay_ns is a sum over the flows of the job's critical path; job_share is a fraction of all delay on that path; other_bytes are the bytes that other services send over the link; behind is the service, possibly the job itself, with the most bytes of other flows that use the link at the same time as a flow of the path, and behind_share its fraction of those bytes
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means exact: only it finds when flows that wait for others start
-- param: n count = 5 : number of links to list for each job

-- include critical_path
, hop_delays AS (
    -- Table hop_contributions need not have the hops that add nothing to the FCT, so its rows are not counted.
    SELECT scenario, variant, flow_row, link_id, true AS crossing, CAST(0 AS DOUBLE) AS delay_ns FROM exact_hops
    UNION ALL
    SELECT scenario, variant, flow_row, link_id, false, delay_ns FROM hop_contributions_all
), delays AS (
    SELECT p.scenario, p.variant, p.job, h.link_id, count(*) FILTER (WHERE h.crossing) AS flows,
        sum(CAST(h.delay_ns AS DECIMAL(30, 3))) AS delay_ns
    FROM path AS p
    JOIN hop_delays AS h ON h.scenario = p.scenario AND h.variant = p.variant AND h.flow_row = p.flow_row
    WHERE ($scenario = '' OR h.scenario = $scenario)
    GROUP BY p.scenario, p.variant, p.job, h.link_id
), placed AS (
    SELECT *,
        row_number() OVER (PARTITION BY scenario, variant, job ORDER BY delay_ns DESC, link_id) AS place,
        sum(delay_ns) OVER (PARTITION BY scenario, variant, job) AS all_ns
    FROM delays
), crossing AS MATERIALIZED (
    SELECT t.scenario, t.variant, t.job, t.link_id, e.n, e.job AS service, f.size_bytes, e.start_ns, e.end_ns
    FROM placed AS t
    JOIN exact_hops AS x ON x.scenario = t.scenario AND x.variant = t.variant AND x.link_id = t.link_id
    JOIN ends AS e ON e.scenario = x.scenario AND e.variant = x.variant AND e.flow_row = x.flow_row
    JOIN flows AS f ON f.scenario = e.scenario AND f.flow_id = e.flow_id
    WHERE t.place <= $n
), others AS (
    SELECT scenario, variant, job, link_id, sum(size_bytes) FILTER (WHERE service <> job) AS bytes
    FROM crossing
    GROUP BY scenario, variant, job, link_id
), met AS (
    SELECT DISTINCT o.*
    FROM crossing AS o
    JOIN crossing AS p ON p.scenario = o.scenario AND p.variant = o.variant AND p.job = o.job AND p.link_id = o.link_id
        AND o.n <> p.n AND o.start_ns < p.end_ns AND o.end_ns > p.start_ns
    SEMI JOIN path ON path.n = p.n
), behind AS (
    SELECT scenario, variant, job, link_id, service, sum(size_bytes) AS bytes,
        sum(sum(size_bytes)) OVER (PARTITION BY scenario, variant, job, link_id) AS all_bytes
    FROM met
    GROUP BY scenario, variant, job, link_id, service
    QUALIFY row_number() OVER (PARTITION BY scenario, variant, job, link_id ORDER BY sum(size_bytes) DESC, service) = 1
)
SELECT
    t.scenario, t.variant, t.job, t.place, t.link_id, e.link, k.tier, t.flows,
    CAST(t.delay_ns AS DOUBLE) AS delay_ns, CAST(t.delay_ns AS DOUBLE) / nullif(CAST(t.all_ns AS DOUBLE), 0) AS job_share,
    CAST(coalesce(o.bytes, 0) AS BIGINT) AS other_bytes, m.service AS behind, m.bytes / m.all_bytes AS behind_share
FROM placed AS t
LEFT JOIN others AS o ON o.scenario = t.scenario AND o.variant = t.variant AND o.job = t.job AND o.link_id = t.link_id
LEFT JOIN behind AS m ON m.scenario = t.scenario AND m.variant = t.variant AND m.job = t.job AND m.link_id = t.link_id
JOIN links AS k ON k.scenario = t.scenario AND k.link_id = t.link_id
JOIN (SELECT * FROM link_names WHERE $scenario = '' OR scenario = $scenario) AS e
  ON e.scenario = t.scenario AND e.link_id = t.link_id
WHERE t.place <= $n
ORDER BY t.scenario, t.variant, t.job, t.place
