-- question: How much do racks send to each other, and how slow is it?
-- grain: one row per scenario, variant and pair of racks; of pods, where there are more than max_racks racks
-- units: bytes without headers; slowdown is FCT / ideal FCT, no unit; a name is what the names of all hosts of the rack begin with
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means all variants of the lake, with separate rows for each
-- param: max_racks count = 48 : pairs of racks up to this many racks, of pods above
-- param: min_flows count = 20 : pairs with fewer flows have no percentiles: they would say little

WITH places AS MATERIALIZED (
    -- Where each host is: its rack or its pod. Hosts without either are left out.
    SELECT n.scenario, n.node_id, CASE WHEN c.racks <= $max_racks THEN 'rack' ELSE 'pod' END AS level,
        CASE WHEN c.racks <= $max_racks THEN n.rack ELSE n.pod END AS place
    FROM nodes AS n
    JOIN (SELECT scenario, count(DISTINCT rack) AS racks FROM nodes WHERE $scenario = '' OR scenario = $scenario GROUP BY scenario) AS c ON c.scenario = n.scenario
    WHERE n.kind = 'host' AND place IS NOT NULL
      AND ($scenario = '' OR n.scenario = $scenario)
), names AS (
    SELECT p.scenario, p.level, p.place,
        CASE WHEN count(DISTINCT regexp_extract(n.name, '^(.+)[-_./][^-_./]+$', 1)) = 1
             THEN coalesce(nullif(min(regexp_extract(n.name, '^(.+)[-_./][^-_./]+$', 1)), ''), p.level || ' ' || p.place)
             ELSE p.level || ' ' || p.place END AS name
    FROM places AS p
    JOIN nodes AS n ON n.scenario = p.scenario AND n.node_id = p.node_id
    WHERE ($scenario = '' OR n.scenario = $scenario)
    GROUP BY p.scenario, p.level, p.place
), picked AS NOT MATERIALIZED (
    SELECT s.scenario, s.variant, {level: a.level, src: a.place, dst: b.place} AS flow_group, s.slowdown AS value
    FROM slowdowns AS s
    JOIN places AS a ON a.scenario = s.scenario AND a.node_id = s.src
    JOIN places AS b ON b.scenario = s.scenario AND b.node_id = s.dst
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
), sums AS (
    SELECT s.scenario, s.variant, a.place AS src, b.place AS dst, CAST(sum(s.size_bytes) AS BIGINT) AS bytes
    FROM slowdowns AS s
    JOIN places AS a ON a.scenario = s.scenario AND a.node_id = s.src
    JOIN places AS b ON b.scenario = s.scenario AND b.node_id = s.dst
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
    GROUP BY ALL
)
SELECT
    p.scenario, p.variant, p.flow_group.level AS level, p.flow_group.src AS src, p.flow_group.dst AS dst,
    a.name AS src_name, z.name AS dst_name, p.flows, b.bytes,
    CASE WHEN p.flows >= $min_flows THEN p.q[1] END AS p50_slowdown,
    CASE WHEN p.flows >= $min_flows THEN p.q[2] END AS p99_slowdown
FROM percentiles(picked, [0.5, 0.99]) AS p
JOIN sums AS b ON b.scenario = p.scenario AND b.variant = p.variant AND b.src = p.flow_group.src AND b.dst = p.flow_group.dst
JOIN names AS a ON a.scenario = p.scenario AND a.place = p.flow_group.src
JOIN names AS z ON z.scenario = p.scenario AND z.place = p.flow_group.dst
ORDER BY p.scenario, p.variant, src, dst
