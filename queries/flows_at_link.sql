-- question: Which flows cross a link in a range of time, and which of them are largest?
-- grain: one row per scenario, variant, link and flow that is active in the time range, largest first
-- units: sizes in bytes; times in ns; slowdown is FCT / ideal FCT; link_delay_ns is what the link adds to the FCT
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: link text = '' : link_id of a link, as in the answers of p99_links and slowest_flows, the name of a link in an answer, A → B or A → B (PORT), or a cable A:B by the names of its two nodes, which stands for all of its links; empty means all links
-- param: n count = 20 : number of flows to list for each link
-- param: from_ns time = 0 : start of the time range in ns, included
-- param: to_ns time = 9223372036854775807 : end of the time range in ns, excluded

WITH chosen AS (
    SELECT scenario, link_id
    FROM link_names
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($link = '' OR coalesce(link_id = TRY_CAST($link AS INTEGER), $link IN (link, cable, reverse_cable)))
), crossing AS (
    -- With a join, DuckDB reads only the row groups that may have these links. A condition with IN reads all hops.
    SELECT c.scenario, c.variant, c.link_id, c.flow_row
    FROM crossings AS c
    JOIN chosen AS l ON l.scenario = c.scenario AND l.link_id = c.link_id
    WHERE ($scenario = '' OR c.scenario = $scenario)
      AND ($variant = '' OR c.variant = $variant)
), largest AS MATERIALIZED (
    SELECT
        s.scenario, s.variant, c.link_id, s.flow_row,
        row_number() OVER (PARTITION BY s.scenario, s.variant, c.link_id ORDER BY s.size_bytes DESC, s.flow_id) AS place
    FROM slowdowns AS s
    JOIN crossing AS c ON c.scenario = s.scenario AND c.variant = s.variant AND c.flow_row = s.flow_row
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
      AND s.start_ns < $to_ns AND s.start_ns + s.fct_ns > $from_ns
    QUALIFY place <= $n
), delays AS (
    SELECT h.scenario, h.variant, h.flow_row, h.link_id, h.delay_ns
    FROM hop_contributions AS h
    SEMI JOIN largest AS c ON c.scenario = h.scenario AND c.variant = h.variant AND c.flow_row = h.flow_row AND c.link_id = h.link_id
    WHERE ($scenario = '' OR h.scenario = $scenario)
      AND ($variant = '' OR h.variant = $variant)
)
SELECT
    c.scenario, c.variant, c.link_id, c.place, s.flow_id, s.service, s.vnet, s.src, s.dst, a.name AS src_name, b.name AS dst_name,
    s.size_bytes, s.start_ns, s.fct_ns, s.slowdown, coalesce(d.delay_ns, 0) AS link_delay_ns
FROM largest AS c
JOIN slowdowns AS s ON s.scenario = c.scenario AND s.variant = c.variant AND s.flow_row = c.flow_row
LEFT JOIN delays AS d ON d.scenario = c.scenario AND d.variant = c.variant AND d.flow_row = c.flow_row AND d.link_id = c.link_id
LEFT JOIN nodes AS a ON a.scenario = c.scenario AND a.node_id = s.src
LEFT JOIN nodes AS b ON b.scenario = c.scenario AND b.node_id = s.dst
WHERE ($scenario = '' OR s.scenario = $scenario)
  AND ($variant = '' OR s.variant = $variant)
ORDER BY c.scenario, c.variant, c.link_id, c.place
