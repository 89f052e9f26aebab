-- question: What share of the workload has start times that were not measured?
-- grain: one row per scenario, variant and service
-- units: bytes without headers; shares are fractions of the service's flows and bytes
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run

-- Start times do not depend on the variant: all variants of a scenario have the same rows.
WITH estimated AS (
    SELECT DISTINCT scenario, variant
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), groups AS (
    SELECT
        scenario, service, count(*) AS flows, count(*) FILTER (WHERE synthetic_start) AS synthetic_flows,
        CAST(sum(size_bytes) AS BIGINT) AS bytes,
        CAST(coalesce(sum(size_bytes) FILTER (WHERE synthetic_start), 0) AS BIGINT) AS synthetic_bytes
    FROM flows
    WHERE ($scenario = '' OR scenario = $scenario)
    GROUP BY scenario, service
)
SELECT
    g.scenario, e.variant, g.service, g.flows, g.synthetic_flows, g.synthetic_flows / CAST(g.flows AS DOUBLE) AS flow_share,
    g.bytes, g.synthetic_bytes, g.synthetic_bytes / CAST(g.bytes AS DOUBLE) AS byte_share
FROM groups AS g
JOIN estimated AS e ON e.scenario = g.scenario
ORDER BY g.scenario, e.variant, g.service
