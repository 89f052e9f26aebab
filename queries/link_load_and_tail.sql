-- question: How loaded is each link, and how much of the slowest flows' time is lost there?
-- grain: one row per scenario, variant and link, for the n links with the highest load and the n links with the largest share of the tail's delay
-- units: bandwidth in bits per second; bytes without headers; load is a fraction of the link's capacity; delay in ns, summed over the tail's flows; tail_share is a fraction of all delay of the tail; max_queue_bytes is null if the link was not simulated (--cluster)
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: quantile fraction = 0.99 : flows whose slowdown is at least this quantile are the tail
-- param: n count = 20 : number of links to list by load, and by share

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, 'all' AS flow_group, slowdown AS value
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), limits AS (
    SELECT scenario, variant, q[1] AS slowdown_limit
    FROM percentiles(picked, [$quantile])
), tail AS (
    -- The list makes DuckDB's estimate of the number of flows low. The join with hop_delays then builds its hash
    -- table from the flows instead of from all hops.
    SELECT unnest(list(row(s.scenario, s.variant, s.flow_row)::STRUCT(scenario VARCHAR, variant VARCHAR, flow_row BIGINT)), recursive := true)
    FROM slowdowns AS s
    JOIN limits AS l ON l.scenario = s.scenario AND l.variant = s.variant
    WHERE s.slowdown >= l.slowdown_limit
      AND ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
)
-- include hop_delays
, parts AS (
    -- A sum of decimals does not depend on the order of the rows, whereas a sum of doubles does.
    SELECT t.scenario, t.variant, h.link_id, count(*) FILTER (WHERE h.crossing) AS tail_flows, sum(CAST(h.delay_ns AS DECIMAL(30, 3))) AS delay_ns
    FROM hop_delays AS h
    JOIN tail AS t ON t.scenario = h.scenario AND t.variant = h.variant AND t.flow_row = h.flow_row
    WHERE ($scenario = '' OR h.scenario = $scenario)
      AND ($variant = '' OR h.variant = $variant)
    GROUP BY ALL
), estimated AS (
    SELECT DISTINCT scenario, variant FROM limits
), ranked AS (
    SELECT
        e.scenario, e.variant, l.link_id, l.src_node, l.dst_node, l.tier, l.bandwidth_bps, l.failed,
        coalesce(k.flows, 0) AS flows, coalesce(k.bytes, 0) AS bytes, coalesce(k.load, 0) AS load, CASE WHEN k.packets_sent > 0 THEN k.max_queue_bytes WHEN coalesce(k.flows, 0) = 0 THEN 0 END AS max_queue_bytes,
        coalesce(p.tail_flows, 0) AS tail_flows, CAST(coalesce(p.delay_ns, 0) AS DOUBLE) AS tail_delay_ns,
        coalesce(CAST(p.delay_ns AS DOUBLE) / nullif(CAST(sum(p.delay_ns) OVER whole AS DOUBLE), 0), 0) AS tail_share,
        row_number() OVER (whole ORDER BY coalesce(k.load, 0) DESC, l.link_id) AS load_place,
        row_number() OVER (whole ORDER BY coalesce(p.delay_ns, 0) DESC, l.link_id) AS tail_place
    FROM estimated AS e
    JOIN links AS l ON l.scenario = e.scenario
    LEFT JOIN link_stats AS k ON k.scenario = e.scenario AND k.variant = e.variant AND k.link_id = l.link_id
    LEFT JOIN parts AS p ON p.scenario = e.scenario AND p.variant = e.variant AND p.link_id = l.link_id
    WHERE ($scenario = '' OR l.scenario = $scenario)
    WINDOW whole AS (PARTITION BY e.scenario, e.variant)
)
SELECT
    r.scenario, r.variant, r.load_place, r.tail_place, r.link_id, n.link, r.tier,
    r.src_node, a.name AS src_name, a.kind AS src_kind, a.pod AS src_pod, a.rack AS src_rack,
    r.dst_node, b.name AS dst_name, b.kind AS dst_kind, b.pod AS dst_pod, b.rack AS dst_rack,
    r.bandwidth_bps, r.failed, r.flows, r.bytes, r.load, r.max_queue_bytes, r.tail_flows, r.tail_delay_ns, r.tail_share
FROM ranked AS r
LEFT JOIN nodes AS a ON a.scenario = r.scenario AND a.node_id = r.src_node
LEFT JOIN nodes AS b ON b.scenario = r.scenario AND b.node_id = r.dst_node
LEFT JOIN (SELECT * FROM link_names WHERE $scenario = '' OR scenario = $scenario) AS n
  ON n.scenario = r.scenario AND n.link_id = r.link_id
WHERE r.load_place <= $n OR r.tail_place <= $n
ORDER BY r.scenario, r.variant, r.load_place
