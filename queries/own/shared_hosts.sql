-- Jobs that share more hosts than in the base.
WITH jobs AS (
    SELECT DISTINCT f.scenario, f.service
    FROM dependencies AS d
    JOIN flows AS f USING (scenario, flow_id)
    WHERE scenario IN ($scenario, $base_scenario)
), hosts AS (
    SELECT DISTINCT scenario, service AS job, unnest([src, dst]) AS host
    FROM flows
    JOIN jobs USING (scenario, service)
    WHERE scenario IN ($scenario, $base_scenario)
), pairs AS (
    SELECT scenario, a.job, b.job AS other, count(*) AS hosts
    FROM hosts AS a
    JOIN hosts AS b USING (scenario, host)
    WHERE a.job < b.job
    GROUP BY ALL
)
SELECT 'jobs ' || job || ' and ' || other || ' share ' || hosts || ' hosts'
FROM pairs
WHERE scenario = $scenario
    AND (job, other, hosts) NOT IN (SELECT (job, other, hosts) FROM pairs WHERE scenario = $base_scenario)
ORDER BY hosts DESC, job, other
