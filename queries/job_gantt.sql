-- question: When does each host of a job compute and send?
-- grain: one row per scenario, variant, job, host, kind of flow and stretch of time, for the n hosts of each job with the lowest ids; a stretch includes pauses shorter than 1/400 of the time range
-- units: begin_ms and end_ms since the start of the job
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means exact: only it finds when flows that wait for others start
-- param: n count = 16 : number of hosts to list for each job
-- param: from_ns time = 0 : start of the time range since the start of the job, in ns
-- param: to_ns time = 9223372036854775807 : end of the time range in ns

-- include job_spans
, shown AS (
    SELECT *,
        begin_ns - min(begin_ns) OVER (PARTITION BY scenario, variant, job) AS from_ns,
        end_ns - min(begin_ns) OVER (PARTITION BY scenario, variant, job) AS to_ns,
        dense_rank() OVER (PARTITION BY scenario, variant, job ORDER BY src) AS place
    FROM spans
), cut AS (
    SELECT scenario, variant, job, src, kind, place, greatest(from_ns, $from_ns) AS from_ns,
        least(to_ns, $to_ns) AS to_ns
    FROM shown
    WHERE place <= $n AND to_ns > from_ns AND to_ns > $from_ns AND from_ns < $to_ns
), pauses AS (
    SELECT *,
        from_ns - max(to_ns) OVER (
            PARTITION BY scenario, variant, job, src, kind ORDER BY from_ns, to_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS pause_ns,
        (max(to_ns) OVER (PARTITION BY scenario, variant, job) - min(from_ns) OVER (PARTITION BY scenario, variant, job)) / 400 AS least_ns
    FROM cut
), stretches AS (
    SELECT *,
        sum(CASE WHEN pause_ns > least_ns THEN 1 ELSE 0 END) OVER (
            PARTITION BY scenario, variant, job, src, kind ORDER BY from_ns, to_ns ROWS UNBOUNDED PRECEDING
        ) AS stretch
    FROM pauses
)
SELECT
    s.scenario, s.variant, s.job, CAST(any_value(s.place) AS INTEGER) AS place, any_value(v.name) AS host, s.kind,
    min(s.from_ns) / 1e6 AS begin_ms, max(s.to_ns) / 1e6 AS end_ms, count(*) AS flows
FROM stretches AS s
JOIN nodes AS v ON v.scenario = s.scenario AND v.node_id = s.src
GROUP BY s.scenario, s.variant, s.job, s.src, s.kind, s.stretch
ORDER BY s.scenario, s.variant, s.job, place, begin_ms, s.kind
