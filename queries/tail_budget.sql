-- question: On which tier of links do the slowest flows of a service lose time?
-- grain: one row per scenario, variant, service and tier of links
-- units: delay in ns, a sum over the flows of the tail; note says where there is no tail to explain; share is the fraction of the total delay of the service's tail; slowdown is FCT / ideal FCT
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: service text = '' : service; empty means all services, with separate rows for each
-- param: vnet text = '' : virtual network; empty means the flows of all
-- param: quantile fraction = 0.99 : the tail is the flows whose slowdown is at least this quantile of their service

WITH picked AS NOT MATERIALIZED (
    SELECT scenario, variant, service AS flow_group, slowdown AS value
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND ($service = '' OR service = $service)
      AND ($vnet = '' OR vnet = $vnet)
), limits AS (
    SELECT scenario, variant, flow_group AS service, q[1] AS slowdown_limit
    FROM percentiles(picked, [$quantile])
), tail AS (
    -- The flows pass through a list, so that DuckDB's estimate of their number is low: the join with
    -- hop_contributions then builds its hash table from them and not from all hops.
    SELECT unnest(list(row(s.scenario, s.variant, s.service, s.flow_row, l.slowdown_limit)
        ::STRUCT(scenario VARCHAR, variant VARCHAR, service VARCHAR, flow_row BIGINT, slowdown_limit DOUBLE)),
        recursive := true)
    FROM slowdowns AS s
    JOIN limits AS l ON l.scenario = s.scenario AND l.variant = s.variant AND l.service = s.service
    WHERE s.slowdown >= l.slowdown_limit
      AND ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
      AND ($service = '' OR s.service = $service)
      AND ($vnet = '' OR s.vnet = $vnet)
), parts AS (
    -- The sum of decimals does not depend on the order of the rows. The sum of doubles does.
    SELECT
        t.scenario, t.variant, t.service, t.slowdown_limit, h.link_id,
        count(*) AS crossings, sum(CAST(h.delay_ns AS DECIMAL(30, 3))) AS delay_ns
    FROM hop_contributions AS h
    JOIN tail AS t ON t.scenario = h.scenario AND t.variant = h.variant AND t.flow_row = h.flow_row
    WHERE ($scenario = '' OR h.scenario = $scenario)
      AND ($variant = '' OR h.variant = $variant)
    GROUP BY ALL
), tiers AS (
    SELECT
        p.scenario, p.variant, p.service, p.slowdown_limit, k.tier,
        CAST(sum(p.crossings) AS BIGINT) AS crossings, sum(p.delay_ns) AS delay_ns
    FROM parts AS p
    LEFT JOIN link_stats AS k ON k.scenario = p.scenario AND k.variant = p.variant AND k.link_id = p.link_id
    GROUP BY ALL
)
SELECT
    scenario, variant, service, slowdown_limit, tier, crossings, CAST(delay_ns AS DOUBLE) AS delay_ns,
    CAST(delay_ns AS DOUBLE) / nullif(CAST(sum(delay_ns) OVER (PARTITION BY scenario, variant, service) AS DOUBLE), 0) AS share,
    CASE
        WHEN slowdown_limit < 1.0005 THEN 'no tail: even this quantile is 1.000'
        WHEN starts_with(variant, 'exact') AND starts_with(tier, 'host-') THEN 'senders also wait here because of congestion at later links (windows, losses, timeouts)'
        ELSE ''
    END AS note
FROM tiers
ORDER BY scenario, variant, service, tiers.delay_ns DESC, tier
