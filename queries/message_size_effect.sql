-- question: How much does the p99 of each service depend on message sizes that nobody has stated?
-- grain: one row per scenario, variant and service; service is null for the flows of all services; only runs of a flow log that assume message sizes have rows
-- units: message_bytes is the assumed size in bytes, null if it is not assumed; p99_slowdown is that of the estimate; p99_third and p99_triple are p99_slowdown with a third of all assumed sizes and with three times them; lo and hi are their bounds, for other windows of time; p99_low and p99_high are the least and the greatest of the three; windows_share is the share of the flows that start in the windows; few is set if a size has fewer than 1,000 flows of the group in the windows
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run

WITH picked AS (
    SELECT m.*, s.answer
    FROM message_sizes_all AS m
    LEFT JOIN scenarios AS s ON s.scenario = m.scenario
    WHERE ($scenario = '' OR m.scenario = $scenario)
      AND ($variant = '' AND m.variant = s.answer OR m.variant = $variant)
), sizes AS (
    SELECT
        scenario, variant, service,
        any_value(message_bytes) FILTER (factor = 1) AS message_bytes,
        any_value(windows) AS windows, any_value(windows_share) AS windows_share, min(flows) < 1000 AS few,
        any_value(p99_windows) FILTER (factor = 1) AS p99_windows,
        any_value(change) FILTER (factor < 1) AS third, any_value(change) FILTER (factor > 1) AS triple,
        any_value(change_lo) FILTER (factor < 1) AS third_lo, any_value(change_hi) FILTER (factor < 1) AS third_hi,
        any_value(change_lo) FILTER (factor > 1) AS triple_lo, any_value(change_hi) FILTER (factor > 1) AS triple_hi
    FROM picked
    GROUP BY scenario, variant, service
    HAVING count(*) = 3
), found AS (
    SELECT s.*, coalesce(i.estimate, s.p99_windows) AS p99
    FROM sizes AS s
    LEFT JOIN intervals_all AS i ON i.scenario = s.scenario AND i.variant = s.variant
      AND i.service IS NOT DISTINCT FROM s.service AND i.vnet IS NULL AND i.size_bin = 'all' AND i.quantile = 0.99
)
SELECT
    scenario, variant, service, message_bytes, p99 AS p99_slowdown,
    greatest(1, p99 * (1 + third)) AS p99_third, greatest(1, p99 * (1 + third_lo)) AS p99_third_lo,
    greatest(1, p99 * (1 + third_hi)) AS p99_third_hi,
    greatest(1, p99 * (1 + triple)) AS p99_triple, greatest(1, p99 * (1 + triple_lo)) AS p99_triple_lo,
    greatest(1, p99 * (1 + triple_hi)) AS p99_triple_hi,
    greatest(1, p99 * (1 + least(0, third, triple))) AS p99_low, p99 * (1 + greatest(0, third, triple)) AS p99_high,
    windows, windows_share, few
FROM found
ORDER BY scenario, variant, service IS NULL, message_bytes IS NULL, greatest(0, third, triple) - least(0, third, triple) DESC, service
