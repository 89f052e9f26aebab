-- question: How loaded is each link over time?
-- grain: one row per scenario, variant, link and slot of time in which it sent data; only runs in which paths or rates change (--event, --balance) have rows; for other runs see hottest_links
-- units: from_ns and to_ns in ns; time_s is the time from the first slot to from_ns, in s; bytes include headers and retransmissions; load is a fraction of the link's bandwidth; place is the rank of the link in its tier, by its highest load and then by its bytes
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: link text = '' : link_id of a link, the name of a link in an answer, A → B or A → B (PORT), or a cable A:B by the names of its two nodes, which stands for all of its links; empty means the links with the highest load of each tier
-- param: links count = 16 : number of links of each tier; those with the highest load in a slot are chosen

WITH slots AS (
    SELECT scenario, variant, link_id, from_ns, to_ns, bytes, load, min(from_ns) OVER (PARTITION BY scenario, variant) AS first_ns
    FROM link_slots
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), peaks AS (
    SELECT scenario, variant, link_id, max(load) AS highest, sum(bytes) AS bytes FROM slots GROUP BY ALL
), placed AS (
    SELECT p.scenario, p.variant, p.link_id, l.tier, n.link, n.cable, n.reverse_cable,
        row_number() OVER (PARTITION BY p.scenario, p.variant, l.tier ORDER BY p.highest DESC, p.bytes DESC, p.link_id) AS place
    FROM peaks AS p
    JOIN links AS l ON l.scenario = p.scenario AND l.link_id = p.link_id
    JOIN (SELECT * FROM link_names WHERE $scenario = '' OR scenario = $scenario) AS n
      ON n.scenario = p.scenario AND n.link_id = p.link_id
)
SELECT
    s.scenario, s.variant, p.tier, s.link_id, p.link, p.place, s.from_ns, s.to_ns, (s.from_ns - s.first_ns) / 1e9 AS time_s,
    s.bytes, s.load
FROM slots AS s
JOIN placed AS p ON p.scenario = s.scenario AND p.variant = s.variant AND p.link_id = s.link_id
WHERE CASE $link WHEN '' THEN p.place <= $links
    ELSE coalesce(p.link_id = TRY_CAST($link AS INTEGER), $link IN (p.link, p.cable, p.reverse_cable)) END
ORDER BY s.scenario, s.variant, p.tier, p.place, s.from_ns
