-- A LAG has several links from one node to another. Each is named by the port of its source or, if that is unknown or
-- not unique, by its number.
SELECT
    l.scenario, l.link_id, a.name || ' → ' || b.name || l.member AS link, a.name || ':' || b.name AS cable,
    b.name || ':' || a.name AS reverse_cable, a.name AS src_name, b.name AS dst_name
FROM (
    SELECT
        scenario, link_id, src_node, dst_node,
        CASE
            WHEN count(*) OVER lag = 1 THEN ''
            WHEN count(*) OVER port = 1 AND src_port IS NOT NULL THEN ' (' || src_port || ')'
            ELSE ' (member ' || row_number() OVER members || ')'
        END AS member
    FROM links
    WINDOW
        lag AS (PARTITION BY scenario, src_node, dst_node),
        members AS (PARTITION BY scenario, src_node, dst_node ORDER BY link_id),
        port AS (PARTITION BY scenario, src_node, dst_node, src_port)
) AS l
JOIN nodes AS a ON a.scenario = l.scenario AND a.node_id = l.src_node
JOIN nodes AS b ON b.scenario = l.scenario AND b.node_id = l.dst_node
