-- question: Do the passes settle: how long do packets wait at each tier of links, pass by pass?
-- grain: one row per scenario, variant, pass up to the variant's own, and tier of links
-- units: mean_wait_ns is the mean wait of a packet in the queues of the tier, in ns; change is the mean difference, over its links' packets, to the pass before, a fraction of their mean wait
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means all variants of the lake, with separate rows for each

-- Estimator flow leaves each pass's link_stats below the variant of that many passes: flow-1, flow-2.
WITH passes AS (
    SELECT scenario, variant, CAST(regexp_extract(variant, '^flow-([0-9]+)', 1) AS INTEGER) AS pass, regexp_replace(variant, '^flow-[0-9]+', '') AS way,
        link_id, tier, packets, mean_wait_ns
    FROM link_stats
    WHERE variant LIKE 'flow-%'
      AND ($scenario = '' OR scenario = $scenario)
), wanted AS (
    SELECT DISTINCT scenario, variant, pass, way
    FROM passes
    WHERE ($variant = '' OR variant = $variant)
), moved AS (
    SELECT p.scenario, p.pass, p.way, p.tier, p.packets, p.mean_wait_ns, b.mean_wait_ns AS before_ns
    FROM passes AS p
    LEFT JOIN passes AS b ON b.scenario = p.scenario AND b.way = p.way AND b.pass = p.pass - 1 AND b.link_id = p.link_id
), tiers AS (
    -- The sum of decimals does not depend on the order of the rows. The sum of doubles does.
    SELECT
        scenario, pass, way, tier, CAST(sum(packets) AS BIGINT) AS packets,
        CAST(sum(CAST(packets * mean_wait_ns AS DECIMAL(38, 3))) AS DOUBLE) AS wait_ns,
        CAST(sum(CAST(packets * abs(mean_wait_ns - before_ns) AS DECIMAL(38, 3))) AS DOUBLE) AS moved_ns
    FROM moved
    GROUP BY ALL
)
SELECT
    w.scenario, w.variant, t.pass, t.tier, t.packets,
    t.wait_ns / nullif(t.packets, 0) AS mean_wait_ns,
    t.moved_ns / nullif(t.wait_ns, 0) AS change
FROM wanted AS w
JOIN tiers AS t ON t.scenario = w.scenario AND t.way = w.way AND t.pass <= w.pass
ORDER BY w.scenario, w.variant, t.pass, t.tier
