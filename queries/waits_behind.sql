-- question: Which flows used a link while the slowest flows waited there?
-- grain: one row per scenario, variant, link and flow that uses the link at the same time as a flow of the tail waits there, sorted by overlap_bytes
-- units: times in ns; sizes in bytes; slowdown is FCT / ideal FCT; tail_flows is the number of flows of the tail, tail_delay_ns what the link adds to their FCTs, and overlap_ns the time in which the flow and one of them were active, summed over them; overlap_bytes is what the flow sends in that time at its mean rate
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: link text = '' : link_id of a link, as in the answer of p99_links, the name of a link in an answer, A → B or A → B (PORT), or a cable A:B by the names of its two nodes, which stands for all of its links; empty means the link that adds the most to the FCTs of the tail
-- param: quantile fraction = 0.99 : flows whose slowdown is above this quantile are the tail
-- param: n count = 20 : number of flows to list for each link

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, 'all' AS flow_group, slowdown AS value
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), limits AS (
    SELECT scenario, variant, q[1] AS slowdown_limit FROM percentiles(picked, [$quantile])
), waits AS (
    SELECT s.scenario, s.variant, s.flow_row, s.start_ns, s.fct_ns, h.link_id, CAST(h.delay_ns AS DECIMAL(30, 3)) AS delay_ns
    FROM slowdowns AS s
    JOIN limits AS l ON l.scenario = s.scenario AND l.variant = s.variant
    JOIN hop_contributions AS h ON h.scenario = s.scenario AND h.variant = s.variant AND h.flow_row = s.flow_row
    WHERE s.slowdown > l.slowdown_limit AND h.delay_ns > 0
      AND ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
), placed AS (
    SELECT scenario, variant, link_id, row_number() OVER (PARTITION BY scenario, variant ORDER BY sum(delay_ns) DESC, link_id) AS place
    FROM waits
    GROUP BY scenario, variant, link_id
), chosen AS (
    SELECT p.scenario, p.variant, p.link_id, k.link
    FROM placed AS p
    JOIN (SELECT * FROM link_names WHERE $scenario = '' OR scenario = $scenario) AS k
      ON k.scenario = p.scenario AND k.link_id = p.link_id
    WHERE $link = '' AND p.place = 1 OR p.link_id = TRY_CAST($link AS INTEGER)
       OR TRY_CAST($link AS INTEGER) IS NULL AND $link IN (k.link, k.cable, k.reverse_cable)
), crossing AS (
    SELECT
        s.scenario, s.variant, c.link_id, c.link, s.flow_row, s.flow_id, s.service, s.vnet, s.src, s.dst, s.size_bytes, s.start_ns,
        s.fct_ns, s.slowdown
    FROM slowdowns AS s
    JOIN crossings AS h ON h.scenario = s.scenario AND h.variant = s.variant AND h.flow_row = s.flow_row
    JOIN chosen AS c ON c.scenario = h.scenario AND c.variant = h.variant AND c.link_id = h.link_id
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
      AND s.fct_ns > 0
), pairs AS (
    SELECT
        c.*, w.delay_ns,
        least(c.start_ns + c.fct_ns, w.start_ns + w.fct_ns) - greatest(c.start_ns, w.start_ns) AS overlap_ns
    FROM crossing AS c
    JOIN waits AS w ON w.scenario = c.scenario AND w.variant = c.variant AND w.link_id = c.link_id
    WHERE w.flow_row <> c.flow_row
      AND w.start_ns < c.start_ns + c.fct_ns
      AND c.start_ns < w.start_ns + w.fct_ns
), flows_behind AS (
    SELECT
        * EXCLUDE (delay_ns, overlap_ns), count(*) AS tail_flows, sum(delay_ns) AS tail_delay_ns, sum(overlap_ns) AS overlap_ns,
        sum(CAST(size_bytes AS HUGEINT) * overlap_ns // fct_ns) AS overlap_bytes
    FROM pairs
    GROUP BY ALL
), most AS (
    SELECT * FROM flows_behind
    QUALIFY row_number() OVER (PARTITION BY scenario, variant, link_id ORDER BY overlap_bytes DESC, flow_id) <= $n
)
SELECT
    f.scenario, f.variant, f.link_id, f.link, f.flow_id, f.service, f.vnet, a.name AS src_name, b.name AS dst_name, f.size_bytes,
    f.start_ns, f.fct_ns, f.slowdown, f.tail_flows, CAST(f.tail_delay_ns AS DOUBLE) AS tail_delay_ns,
    CAST(f.overlap_ns AS BIGINT) AS overlap_ns, CAST(f.overlap_bytes AS DOUBLE) AS overlap_bytes
FROM most AS f
LEFT JOIN nodes AS a ON a.scenario = f.scenario AND a.node_id = f.src
LEFT JOIN nodes AS b ON b.scenario = f.scenario AND b.node_id = f.dst
ORDER BY f.scenario, f.variant, f.link_id, f.overlap_bytes DESC, f.flow_id
