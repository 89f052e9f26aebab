-- question: Which services lose time on the most loaded links?
-- grain: one row per scenario, variant, link and service, for the n most loaded links
-- units: bytes without headers; delays in ns, the part of the flows' FCTs that the link adds; shares are fractions of the link's bytes and delay
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: n count = 5 : number of links to list

WITH hot AS (
    SELECT scenario, variant, link_id, src_node, dst_node, tier, load,
        row_number() OVER (PARTITION BY scenario, variant ORDER BY load DESC, link_id) AS place
    FROM link_stats
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    QUALIFY place <= $n
), crossings AS (
    SELECT h.scenario, h.variant, h.link_id, h.flow_row, h.delay_ns
    FROM hop_contributions AS h
    JOIN hot ON hot.scenario = h.scenario AND hot.variant = h.variant AND hot.link_id = h.link_id
    WHERE ($scenario = '' OR h.scenario = $scenario)
      AND ($variant = '' OR h.variant = $variant)
), groups AS (
    -- The sum of decimals does not depend on the order of the rows. The sum of doubles does.
    SELECT c.scenario, c.variant, c.link_id, s.service,
        count(*) AS flows, sum(s.size_bytes) AS bytes, sum(CAST(c.delay_ns AS DECIMAL(30, 3))) AS delay_ns,
        quantile_cont(c.delay_ns, [0.5, 0.99]) AS q
    FROM crossings AS c
    JOIN slowdowns AS s ON s.scenario = c.scenario AND s.variant = c.variant AND s.flow_row = c.flow_row
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
    GROUP BY c.scenario, c.variant, c.link_id, s.service
)
SELECT
    g.scenario, g.variant, hot.place, g.link_id, a.name || ' → ' || b.name AS link, hot.src_node, hot.dst_node, hot.tier, hot.load, g.service, g.flows,
    CAST(g.bytes AS BIGINT) AS bytes,
    CAST(g.bytes AS DOUBLE) / CAST(sum(g.bytes) OVER link AS DOUBLE) AS byte_share,
    CAST(g.delay_ns AS DOUBLE) / nullif(CAST(sum(g.delay_ns) OVER link AS DOUBLE), 0) AS delay_share,
    g.q[1] AS p50_delay_ns, g.q[2] AS p99_delay_ns
FROM groups AS g
JOIN hot ON hot.scenario = g.scenario AND hot.variant = g.variant AND hot.link_id = g.link_id
LEFT JOIN nodes AS a ON a.scenario = g.scenario AND a.node_id = hot.src_node
LEFT JOIN nodes AS b ON b.scenario = g.scenario AND b.node_id = hot.dst_node
WINDOW link AS (PARTITION BY g.scenario, g.variant, g.link_id)
ORDER BY g.scenario, g.variant, hot.place, g.delay_ns DESC, g.service
