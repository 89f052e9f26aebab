-- question: Does each link carry, over time, the bytes that the flow log and the interface counters have there?
-- grain: one row per scenario, variant, link and slot of time; only estimates that parsimon validate --truth log has compared have rows
-- units: from_ns and to_ns in ns; time_s is the time from the first slot to from_ns, in s; rates are bytes without headers in Gbps, those of counters with headers; earlier_share is the share of the log's bytes whose transfers began before the run's part of the log; misplaced_share is the sum of the differences of all slots, without their signs, as a share of the bytes of the link in the log; place is the rank of the link by these differences
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means all variants that were compared
-- param: link text = '' : link_id of a link, the name of a link in an answer, A → B or A → B (PORT), or a cable A:B by the names of its two nodes, which stands for all of its links; empty means the links that differ most
-- param: links count = 16 : number of links; those with the largest differences are chosen
-- param: slots count = 1440 : number of slots of time; if there are more, neighbors are added up

WITH chosen AS (
    SELECT
        *, min(from_ns) OVER (PARTITION BY scenario, variant) AS first_ns,
        max(to_ns) OVER (PARTITION BY scenario, variant) AS end_ns
    FROM validation_links
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
), totals AS (
    SELECT
        scenario, variant, link_id, sum(log_bytes) AS log_bytes, sum(simulated_bytes) AS simulated_bytes,
        sum(abs(simulated_bytes - log_bytes)) AS misplaced_bytes
    FROM chosen
    GROUP BY ALL
), placed AS (
    SELECT t.*, l.tier, n.link, n.cable, n.reverse_cable,
        row_number() OVER (
            PARTITION BY t.scenario, t.variant ORDER BY t.misplaced_bytes DESC, t.log_bytes DESC, t.link_id
        ) AS place
    FROM totals AS t
    JOIN links AS l ON l.scenario = t.scenario AND l.link_id = t.link_id
    JOIN (SELECT * FROM link_names WHERE $scenario = '' OR scenario = $scenario) AS n
      ON n.scenario = t.scenario AND n.link_id = t.link_id
), slots AS (
    SELECT
        scenario, variant, link_id, min(from_ns) AS from_ns, max(to_ns) AS to_ns, min(first_ns) AS first_ns,
        sum(log_bytes) AS log_bytes, sum(simulated_bytes) AS simulated_bytes, sum(earlier_bytes) AS earlier_bytes,
        CASE WHEN count(counted_bytes) = count(*) THEN sum(counted_bytes) END AS counted_bytes
    FROM chosen
    GROUP BY scenario, variant, link_id, floor((from_ns - first_ns) * CAST($slots AS DOUBLE) / (end_ns - first_ns))
)
SELECT
    s.scenario, s.variant, s.link_id, p.link, p.tier, p.place, s.from_ns, s.to_ns, (s.from_ns - s.first_ns) / 1e9 AS time_s,
    8 * s.log_bytes / (s.to_ns - s.from_ns) AS log_gbps,
    8 * s.simulated_bytes / (s.to_ns - s.from_ns) AS simulated_gbps,
    8 * s.counted_bytes / (s.to_ns - s.from_ns) AS counted_gbps,
    s.earlier_bytes / nullif(s.log_bytes, 0) AS earlier_share,
    p.misplaced_bytes / nullif(p.log_bytes, 0) AS misplaced_share
FROM slots AS s
JOIN placed AS p ON p.scenario = s.scenario AND p.variant = s.variant AND p.link_id = s.link_id
WHERE CASE $link WHEN '' THEN p.place <= $links
    ELSE coalesce(p.link_id = TRY_CAST($link AS INTEGER), $link IN (p.link, p.cable, p.reverse_cable)) END
ORDER BY s.scenario, s.variant, p.place, s.from_ns
