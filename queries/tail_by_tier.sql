-- question: On which tier of links are the slowest flows delayed, of all flows and of each service?
-- grain: one row per scenario, variant, service (null for all flows) and tier of links, for every tier of the network
-- units: delay_ns is a sum over the flows of the tail; share is a fraction of that of all tiers; slowdown is FCT / ideal FCT
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: quantile fraction = 0.99 : flows whose slowdown is at least this quantile of their service's, or of all flows, are the tail
-- param: service text = '' : service; empty means all services, each with its own rows, and rows for all flows
-- param: vnet text = '' : virtual network; empty means the flows of all
-- param: groups count = 12 : number of services that have rows; those with the most flows are chosen

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, service AS flow_group, slowdown AS value
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND ($service = '' OR service = $service)
      AND ($vnet = '' OR vnet = $vnet)
), limits AS (
    SELECT scenario, variant, whole, flow_group AS service, flows, q[1] AS slowdown_limit,
        row_number() OVER (PARTITION BY scenario, variant, whole ORDER BY flows DESC, flow_group) AS place
    FROM percentiles_and_whole(picked, [$quantile])
    WHERE $service = '' OR NOT whole
), tail AS (
    -- The list makes DuckDB's estimate of the number of flows low. The join with hop_delays then builds its hash
    -- table from the flows instead of from all hops.
    SELECT unnest(list(row(s.scenario, s.variant, l.whole, l.service, s.flow_row)::STRUCT(scenario VARCHAR, variant VARCHAR, whole BOOLEAN, service VARCHAR, flow_row BIGINT)), recursive := true)
    FROM slowdowns AS s
    JOIN limits AS l ON l.scenario = s.scenario AND l.variant = s.variant AND (l.whole OR l.service = s.service)
    WHERE s.slowdown >= l.slowdown_limit AND l.place <= $groups
      AND ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
      AND ($service = '' OR s.service = $service)
      AND ($vnet = '' OR s.vnet = $vnet)
)
-- include hop_delays
, parts AS (
    -- A sum of decimals does not depend on the order of the rows, whereas a sum of doubles does.
    SELECT t.scenario, t.variant, t.whole, t.service, h.link_id, count(*) FILTER (WHERE h.crossing) AS crossings, sum(CAST(h.delay_ns AS DECIMAL(30, 3))) AS delay_ns
    FROM hop_delays AS h
    JOIN tail AS t ON t.scenario = h.scenario AND t.variant = h.variant AND t.flow_row = h.flow_row
    WHERE ($scenario = '' OR h.scenario = $scenario)
      AND ($variant = '' OR h.variant = $variant)
    GROUP BY ALL
), tiers AS (
    SELECT p.scenario, p.variant, p.whole, p.service, k.tier, CAST(sum(p.crossings) AS BIGINT) AS crossings, sum(p.delay_ns) AS delay_ns
    FROM parts AS p
    JOIN links AS k ON k.scenario = p.scenario AND k.link_id = p.link_id
    GROUP BY ALL
), every AS (
    SELECT l.scenario, l.variant, l.whole, l.service, l.slowdown_limit, k.tier
    FROM limits AS l
    JOIN (SELECT DISTINCT scenario, tier FROM links WHERE $scenario = '' OR scenario = $scenario) AS k ON k.scenario = l.scenario
    WHERE l.place <= $groups
), shares AS (
    SELECT
        e.*, coalesce(t.crossings, 0) AS crossings, coalesce(t.delay_ns, 0) AS delay_ns,
        sum(coalesce(t.delay_ns, 0)) OVER (PARTITION BY e.scenario, e.variant, e.whole, e.service) AS all_delay_ns
    FROM every AS e
    LEFT JOIN tiers AS t ON t.scenario = e.scenario AND t.variant = e.variant AND t.whole = e.whole
     AND t.service IS NOT DISTINCT FROM e.service AND t.tier = e.tier
)
SELECT
    shares.scenario, shares.variant, service, slowdown_limit, tier, crossings, CAST(delay_ns AS DOUBLE) AS delay_ns,
    CAST(delay_ns AS DOUBLE) / nullif(CAST(all_delay_ns AS DOUBLE), 0) AS share,
    CASE
        WHEN slowdown_limit < 1.0005 THEN 'no tail: even this quantile is 1.000'
        WHEN v.whole_network AND starts_with(tier, 'host-')
            THEN 'senders also wait here because of congestion at later links (windows, losses, timeouts)'
        ELSE ''
    END AS note
FROM shares
LEFT JOIN variants AS v ON v.scenario = shares.scenario AND v.variant = shares.variant
ORDER BY shares.scenario, shares.variant, NOT whole, service, shares.delay_ns DESC, tier
