-- question: How long after an event do tail and goodput return to their values before it, and how many flows were hit?
-- grain: one row per scenario, variant and measure: p99_slowdown of the flows that start in a slot, goodput_gbps of the flows that end in it; there are no rows if there are no events
-- units: before is the measure over all flows that ended before the event, or the mean goodput since the first start; worst is the measure of the worst slot that begins between the start of the event and event_lengths times its length after its end; worst_ns is the time from the start of the event to that slot, recovered_ns the time to the first later slot that is within the limit: 0 if no slot is outside the limit, null if none returns to it or if the event hit no flow (see note); flows_hit are flows active during the event of which a packet was retransmitted; event_ns and end_ns are the start and end of the event in ns
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: from_ns time = '' : start of the event in ns; the default is the start of the scenario's first event
-- param: to_ns time = '' : end of the event in ns; the default is the end of the scenario's last event
-- param: slot_ms positive = '' : length of a slot in ms, rounded to whole ns; the default is a quarter of the event
-- param: within positive = 0.25 : largest accepted difference from the value before the event, as a fraction of that value
-- param: event_lengths positive = 10 : end of the search for the worst slot, after the end of the event, in lengths of the event

-- include event_slots
, chosen AS NOT MATERIALIZED (
    SELECT s.scenario, s.variant, s.size_bytes, s.start_ns, s.start_ns + s.fct_ns AS done_ns, s.slowdown, s.retransmissions,
        e.event_ns, e.end_ns, e.slot_ns, e.loses_nothing, max(s.start_ns) OVER (PARTITION BY s.scenario, s.variant) AS last_ns
    FROM slowdowns AS s
    JOIN event_slots AS e ON e.scenario = s.scenario
    WHERE ($scenario = '' OR s.scenario = $scenario)
      AND ($variant = '' OR s.variant = $variant)
), hit AS (
    SELECT scenario, variant, event_ns, end_ns, loses_nothing,
        count(*) FILTER (start_ns < end_ns AND done_ns > event_ns AND retransmissions > 0) AS flows_hit,
        quantile_cont(slowdown, 0.99) FILTER (done_ns <= event_ns) AS p99,
        sum(size_bytes) FILTER (done_ns <= event_ns) * 8.0 / nullif(any_value(event_ns) - min(start_ns), 0) AS gbps
    FROM chosen GROUP BY ALL
), slots AS (
    SELECT scenario, variant, 'p99_slowdown' AS measure, (start_ns - event_ns) // slot_ns * slot_ns AS at_ns,
        quantile_cont(slowdown, 0.99) AS value
    FROM chosen WHERE start_ns >= event_ns GROUP BY ALL
    UNION ALL
    -- Only whole slots in which flows still start count, because the last flows leave the network idle.
    SELECT scenario, variant, 'goodput_gbps', (done_ns - event_ns) // slot_ns * slot_ns,
        sum(size_bytes) * 8.0 / any_value(slot_ns)
    FROM chosen
    WHERE done_ns >= event_ns AND (done_ns - event_ns) // slot_ns < (last_ns - event_ns) // slot_ns
    GROUP BY ALL
), judged AS (
    SELECT s.*, h.flows_hit, h.event_ns, h.end_ns, h.flows_hit = 0 AND NOT h.loses_nothing AS unhurt,
        s.at_ns - (h.end_ns - h.event_ns) < $event_lengths * (h.end_ns - h.event_ns) AS near, CASE s.measure WHEN 'goodput_gbps' THEN h.gbps ELSE h.p99 END AS before,
        CASE s.measure WHEN 'goodput_gbps' THEN s.value >= h.gbps * (1 - $within) ELSE s.value <= h.p99 * (1 + $within) END AS good,
        row_number() OVER (PARTITION BY s.scenario, s.variant, s.measure
            ORDER BY near DESC, CASE s.measure WHEN 'goodput_gbps' THEN s.value ELSE -s.value END, s.at_ns) AS place
    FROM slots AS s
    JOIN hit AS h ON h.scenario = s.scenario AND h.variant = s.variant
)
SELECT
    j.scenario, j.variant, j.measure, w.before, w.value AS worst, w.at_ns AS worst_ns,
    CASE WHEN any_value(w.unhurt) THEN NULL WHEN bool_and(j.good) FILTER (j.near) THEN 0
        ELSE min(j.at_ns) FILTER (j.good AND j.at_ns > w.at_ns) END AS recovered_ns,
    w.flows_hit, w.event_ns, w.end_ns, CASE WHEN w.unhurt THEN 'no flow was hit' END AS note
FROM judged AS j
JOIN judged AS w ON w.place = 1 AND w.near AND w.scenario = j.scenario AND w.variant = j.variant AND w.measure = j.measure
GROUP BY ALL
ORDER BY j.scenario, j.variant, j.measure DESC
