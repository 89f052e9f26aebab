-- question: What is the mean load of the 10% most loaded links?
-- grain: one row per scenario and variant
-- units: loads are fractions of a link's capacity
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run

-- The paper's measure of load (section 5), over the links of the topology that have not failed. A link that
-- no flow crosses has no row in link_stats, and its load is 0. Ten percent of the links is rounded up.
WITH stats AS (
    SELECT
        scenario, variant, load,
        row_number() OVER (PARTITION BY scenario, variant ORDER BY load DESC, link_id) AS place
    FROM link_stats
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), up AS (
    SELECT scenario, count(*) AS n
    FROM links
    WHERE NOT failed AND ($scenario = '' OR scenario = $scenario)
    GROUP BY scenario
), counted AS (
    SELECT s.scenario, s.variant, greatest(count(*), coalesce(max(u.n), 0)) AS links
    FROM stats AS s
    LEFT JOIN up AS u ON u.scenario = s.scenario
    GROUP BY s.scenario, s.variant
)
SELECT
    c.scenario, c.variant, c.links,
    CAST((c.links + 9) // 10 AS BIGINT) AS top_links,
    max(s.load) AS max_load,
    -- Ordered, so that the sum of doubles does not depend on the number of threads.
    sum(s.load ORDER BY s.place) FILTER (WHERE s.place <= (c.links + 9) // 10) / ((c.links + 9) // 10) AS top10_mean_load,
    sum(s.load ORDER BY s.place) / c.links AS mean_load
FROM counted AS c
JOIN stats AS s ON s.scenario = c.scenario AND s.variant = c.variant
GROUP BY c.scenario, c.variant, c.links
ORDER BY c.scenario, c.variant
