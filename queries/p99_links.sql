-- question: Which links delay the slowest flows, and of which services?
-- grain: one row per scenario, variant, link and service, for the n links with the largest share
-- units: delay_ns is a sum over the flows of the tail; shares are fractions of the total delay of the tail
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: service text = '' : service of the flows; empty means all services
-- param: vnet text = '' : virtual network of the flows; empty means all
-- param: quantile fraction = 0.99 : flows whose slowdown is above this quantile are the tail
-- param: limit positive = '' : flows whose slowdown is above this value are the tail; empty means the slowdown at the quantile
-- param: n count = 10 : number of links to list

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, 'all' AS flow_group, slowdown AS value
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND ($service = '' OR service = $service)
      AND ($vnet = '' OR vnet = $vnet)
), limits AS (
    SELECT scenario, variant, q[1] AS slowdown_limit
    FROM percentiles(picked, [$quantile])
    WHERE $limit IS NULL
), tail AS (
    -- The list makes DuckDB's estimate of the number of flows low. The join with hop_delays then builds its hash
    -- table from the flows instead of from all hops.
    SELECT unnest(list(row(s.scenario, s.variant, s.flow_row, s.service)
        ::STRUCT(scenario VARCHAR, variant VARCHAR, flow_row BIGINT, service VARCHAR)), recursive := true)
    FROM slowdowns AS s
    LEFT JOIN limits AS l ON l.scenario = s.scenario AND l.variant = s.variant
    WHERE s.slowdown > coalesce($limit, l.slowdown_limit)
      AND ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
      AND ($service = '' OR s.service = $service)
      AND ($vnet = '' OR s.vnet = $vnet)
)
-- include hop_delays
, parts AS (
    -- A sum of decimals does not depend on the order of the rows, whereas a sum of doubles does.
    SELECT
        t.scenario, t.variant, h.link_id, t.service,
        count(*) FILTER (WHERE h.crossing) AS tail_flows,
        sum(CAST(h.delay_ns AS DECIMAL(30, 3))) AS delay_ns
    FROM hop_delays AS h
    JOIN tail AS t
      ON t.scenario = h.scenario AND t.variant = h.variant AND t.flow_row = h.flow_row
    WHERE ($scenario = '' OR h.scenario = $scenario)
      AND ($variant = '' OR h.variant = $variant)
    GROUP BY t.scenario, t.variant, h.link_id, t.service
), shares AS (
    SELECT
        *,
        sum(delay_ns) OVER (PARTITION BY scenario, variant) AS total_ns,
        sum(delay_ns) OVER (PARTITION BY scenario, variant, link_id) AS link_ns
    FROM parts
), placed AS (
    SELECT *, dense_rank() OVER (PARTITION BY scenario, variant ORDER BY link_ns DESC, link_id) AS place
    FROM shares
)
SELECT
    p.scenario, p.variant, p.place, p.link_id, n.link, k.src_node, k.dst_node, k.tier, k.load,
    CAST(p.link_ns AS DOUBLE) / nullif(CAST(p.total_ns AS DOUBLE), 0) AS link_share,
    p.service, p.tail_flows,
    CAST(p.delay_ns AS DOUBLE) AS delay_ns,
    CAST(p.delay_ns AS DOUBLE) / nullif(CAST(p.total_ns AS DOUBLE), 0) AS service_share,
    CASE
        WHEN v.whole_network AND starts_with(k.tier, 'host-')
            THEN 'senders also wait here because of congestion at later links (windows, losses, timeouts)'
        ELSE ''
    END AS note
FROM placed AS p
LEFT JOIN variants AS v ON v.scenario = p.scenario AND v.variant = p.variant
LEFT JOIN link_stats AS k
  ON k.scenario = p.scenario AND k.variant = p.variant AND k.link_id = p.link_id
LEFT JOIN (SELECT * FROM link_names WHERE $scenario = '' OR scenario = $scenario) AS n
  ON n.scenario = p.scenario AND n.link_id = k.link_id
WHERE p.place <= $n
ORDER BY p.scenario, p.variant, p.place, p.delay_ns DESC, p.service
