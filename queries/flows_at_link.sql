-- question: Which flows cross a link in a range of time, and which of them are largest?
-- grain: one row per scenario, variant, link and flow that is active in the time range, largest first
-- units: sizes in bytes; times in ns; slowdown is FCT / ideal FCT; link_delay_ns is what the link adds to the FCT
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: link text = '' : link_id of a link, as in the answers of p99_links and slowest_flows, the name of a link in an answer, A → B or A → B (PORT), or a cable A:B by the names of its two nodes, which stands for all of its links; empty means all links
-- param: n count = 20 : number of flows to list for each link
-- param: from_ns time = 0 : start of the time range in ns, included
-- param: to_ns time = 9223372036854775807 : end of the time range in ns, excluded

WITH named AS (
    SELECT scenario, link_id
    FROM link_names
    WHERE ($scenario = '' OR scenario = $scenario)
      AND $link IN (link, cable, reverse_cable)
), crossing AS (
    SELECT
        s.scenario, s.variant, c.link_id, s.flow_id, s.service, s.vnet, s.src, s.dst, s.size_bytes, s.start_ns, s.fct_ns, s.slowdown,
        c.delay_ns AS link_delay_ns,
        row_number() OVER (PARTITION BY s.scenario, s.variant, c.link_id ORDER BY s.size_bytes DESC, s.flow_id) AS place
    FROM slowdowns AS s
    JOIN hop_contributions AS c ON c.scenario = s.scenario AND c.variant = s.variant AND c.flow_row = s.flow_row
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($scenario = '' OR c.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
      AND ($variant = '' OR c.variant = $variant)
      AND ($link = '' OR c.link_id = TRY_CAST($link AS INTEGER)
        OR TRY_CAST($link AS INTEGER) IS NULL AND (c.scenario, c.link_id) IN (SELECT (named.scenario, named.link_id) FROM named))
      AND s.start_ns < $to_ns AND s.start_ns + s.fct_ns > $from_ns
    QUALIFY place <= $n
)
SELECT
    c.scenario, c.variant, c.link_id, c.place, c.flow_id, c.service, c.vnet, c.src, c.dst, a.name AS src_name, b.name AS dst_name,
    c.size_bytes, c.start_ns, c.fct_ns, c.slowdown, c.link_delay_ns
FROM crossing AS c
LEFT JOIN nodes AS a ON a.scenario = c.scenario AND a.node_id = c.src
LEFT JOIN nodes AS b ON b.scenario = c.scenario AND b.node_id = c.dst
ORDER BY c.scenario, c.variant, c.link_id, c.place
