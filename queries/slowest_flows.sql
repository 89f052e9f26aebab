-- question: Which flows are slowest, and at which link is each delayed most?
-- grain: one row per scenario, variant and flow, the slowest first
-- units: slowdown is FCT / ideal FCT; sizes in bytes; times in ns; link_delay_ns is what the link adds to the FCT, null if no link adds anything
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: service text = '' : service of the flows; empty means all services
-- param: n count = 10 : number of flows to list
-- param: from_ns time = 0 : start of the time range in ns, included
-- param: to_ns time = 9223372036854775807 : end of the time range in ns, excluded

WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY scenario, variant ORDER BY slowdown DESC, flow_id) AS place
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND ($service = '' OR service = $service)
      AND start_ns >= $from_ns AND start_ns < $to_ns
    QUALIFY place <= $n
), worst AS (
    SELECT
        c.scenario, c.variant, c.flow_row, arg_max(c.link_id, (c.delay_ns, -c.hop)) AS link_id,
        max(c.delay_ns) AS link_delay_ns
    FROM hop_contributions AS c
    SEMI JOIN ranked AS r ON r.scenario = c.scenario AND r.variant = c.variant AND r.flow_row = c.flow_row
    WHERE c.delay_ns > 0
      AND ($scenario = '' OR c.scenario = $scenario)
      AND ($variant = '' OR c.variant = $variant)
    GROUP BY c.scenario, c.variant, c.flow_row
)
SELECT
    r.scenario, r.variant, r.place, r.flow_id, r.service, r.vnet, r.src, r.dst, s.name AS src_name, d.name AS dst_name, r.size_bytes, r.start_ns, r.fct_ns,
    r.ideal_ns, r.slowdown, w.link_id, n.link, w.link_delay_ns,
    CASE
        WHEN v.whole_network AND starts_with(l.tier, 'host-')
            THEN 'senders also wait here because of congestion at later links (windows, losses, timeouts)'
        ELSE ''
    END AS note
FROM ranked AS r
LEFT JOIN variants AS v ON v.scenario = r.scenario AND v.variant = r.variant
LEFT JOIN worst AS w ON w.scenario = r.scenario AND w.variant = r.variant AND w.flow_row = r.flow_row
LEFT JOIN links AS l ON l.scenario = r.scenario AND l.link_id = w.link_id
LEFT JOIN (SELECT * FROM link_names WHERE $scenario = '' OR scenario = $scenario) AS n
  ON n.scenario = r.scenario AND n.link_id = w.link_id
LEFT JOIN nodes AS s ON s.scenario = r.scenario AND s.node_id = r.src
LEFT JOIN nodes AS d ON d.scenario = r.scenario AND d.node_id = r.dst
ORDER BY r.scenario, r.variant, r.place
