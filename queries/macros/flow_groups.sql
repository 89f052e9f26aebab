-- The table macro flow_groups(relation, most): the groups of flows by service and virtual network
-- that charts can be filtered by. The relation, by its name, has columns scenario, variant, service and vnet.
--
-- A flow belongs to up to four groups: all flows, its service, its network, and both. Of services, of networks and of
-- pairs of both, those with the most flows are groups, up to most of each. The answer has a row for each service and
-- network that flows have together and each group that these flows belong to: scenario, variant, service, vnet,
-- group_service and group_vnet (null: any), the number group_id of the group, from 1 within a scenario and variant, and
-- the number pair_id of the set of groups: services and networks that are no groups share one, however many there are.
flow_groups(relation, most) AS TABLE
SELECT
    scenario, variant, service, vnet, group_service, group_vnet,
    dense_rank() OVER (PARTITION BY scenario, variant ORDER BY of_service NULLS FIRST, of_vnet NULLS FIRST,
        of_both[1] NULLS FIRST, of_both[2] NULLS FIRST) AS pair_id,
    dense_rank() OVER (
        PARTITION BY scenario, variant ORDER BY group_service NULLS FIRST, group_vnet NULLS FIRST
    ) AS group_id
FROM (
    SELECT *,
        max(service) FILTER (by_service AND NOT by_vnet) OVER own AS of_service,
        max(vnet) FILTER (by_vnet AND NOT by_service) OVER own AS of_vnet,
        max([service, vnet]) FILTER (by_service AND by_vnet) OVER own AS of_both
    FROM (
        SELECT * FROM (
            SELECT
                n.scenario, n.variant, n.service, n.vnet, w.by_service, w.by_vnet,
                CASE WHEN w.by_service THEN n.service END AS group_service,
                CASE WHEN w.by_vnet THEN n.vnet END AS group_vnet,
                sum(n.flows) OVER (
                    PARTITION BY n.scenario, n.variant, w.by_service, w.by_vnet,
                        CASE WHEN w.by_service THEN n.service END, CASE WHEN w.by_vnet THEN n.vnet END
                ) AS group_flows
            FROM (
                SELECT scenario, variant, service, vnet, count(*) AS flows FROM query_table(relation) GROUP BY ALL
            ) AS n, (VALUES (false, false), (true, false), (false, true), (true, true)) AS w(by_service, by_vnet)
        )
        QUALIFY dense_rank() OVER (
            PARTITION BY scenario, variant, by_service, by_vnet ORDER BY group_flows DESC, group_service, group_vnet
        ) <= most
    )
    WINDOW own AS (PARTITION BY scenario, variant, service, vnet)
)
