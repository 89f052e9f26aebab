package queries

// flowGroupsMacro is the table macro flow_groups(relation, most): the groups of flows by service and virtual network
// that charts can be filtered by. The relation, by its name, has columns scenario, variant, service and vnet.
//
// A flow belongs to up to four groups: all flows, its service, its network, and both. The answer has a row for each
// service and network that flows have together and each group that these flows belong to: scenario, variant, service,
// vnet, group_service and group_vnet (null: any), and the numbers pair_id of the service and network and group_id of
// the group, from 1 within a scenario and variant. Of services, of networks and of pairs, those with the most flows are
// groups, up to most of each.
const flowGroupsMacro = `flow_groups(relation, most) AS TABLE
SELECT
    scenario, variant, service, vnet, group_service, group_vnet,
    dense_rank() OVER (PARTITION BY scenario, variant ORDER BY service, vnet) AS pair_id,
    dense_rank() OVER (
        PARTITION BY scenario, variant ORDER BY group_service NULLS FIRST, group_vnet NULLS FIRST
    ) AS group_id
FROM (
    SELECT
        n.scenario, n.variant, n.service, n.vnet, w.by_service, w.by_vnet,
        CASE WHEN w.by_service THEN n.service END AS group_service, CASE WHEN w.by_vnet THEN n.vnet END AS group_vnet,
        sum(n.flows) OVER (
            PARTITION BY n.scenario, n.variant, w.by_service, w.by_vnet,
                CASE WHEN w.by_service THEN n.service END, CASE WHEN w.by_vnet THEN n.vnet END
        ) AS group_flows
    FROM (SELECT scenario, variant, service, vnet, count(*) AS flows FROM query_table(relation) GROUP BY ALL) AS n,
        (VALUES (false, false), (true, false), (false, true), (true, true)) AS w(by_service, by_vnet)
)
QUALIFY dense_rank() OVER (
    PARTITION BY scenario, variant, by_service, by_vnet ORDER BY group_flows DESC, group_service, group_vnet
) <= most`
