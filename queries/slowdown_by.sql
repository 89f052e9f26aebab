-- question: What is the slowdown by virtual network, by rack of the sender, or by number of links on the path?
-- grain: one row per scenario, variant and group of flows
-- units: slowdown is FCT / ideal FCT; lo and hi are the bounds of its 95% confidence interval, which only virtual networks have
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: by vnet|rack|hops = vnet : what groups the flows; hops is the number of links on the path

WITH racks AS (
    SELECT scenario, node_id, rack_name FROM nodes WHERE $scenario = '' OR scenario = $scenario
), picked AS NOT MATERIALIZED (
    SELECT
        s.scenario, s.variant, s.slowdown AS value,
        CASE $by WHEN 'vnet' THEN s.vnet WHEN 'rack' THEN n.rack_name ELSE CAST(s.hops AS VARCHAR) END AS flow_group
    FROM slowdowns AS s
    LEFT JOIN racks AS n ON n.scenario = s.scenario AND n.node_id = s.src
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
), trust AS (
    SELECT * FROM intervals_by_group
    WHERE service IS NULL AND vnet IS NOT NULL AND size_bin = 'all' AND $by = 'vnet'
      AND ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
)
SELECT
    g.scenario, g.variant, g.flow_group, g.flows,
    g.q[1] AS p50_slowdown, g.q[2] AS p90_slowdown, g.q[3] AS p99_slowdown, g.q[4] AS p999_slowdown,
    g.max_value AS max_slowdown,
    i.p50_lo, i.p50_hi, i.p90_lo, i.p90_hi, i.p99_lo, i.p99_hi, i.p999_lo, i.p999_hi, coalesce(i.warning, '') AS warning
FROM percentiles(picked, [0.5, 0.9, 0.99, 0.999]) AS g
LEFT JOIN trust AS i ON i.scenario = g.scenario AND i.variant = g.variant AND i.vnet = g.flow_group
ORDER BY g.scenario, g.variant, CASE WHEN $by = 'hops' THEN CAST(g.flow_group AS INTEGER) END, g.flow_group
