-- Start and end of the event of each scenario, and the length of a slot.
WITH events AS (
    SELECT scenario, last_start_ns, from_json(json_extract(spec, '$.moves.events'), '[{"kind": "VARCHAR", "from_ns": "BIGINT", "to_ns": "BIGINT"}]') AS events
    FROM scenarios
    WHERE $scenario = '' OR scenario = $scenario
), event_times AS (
    SELECT scenario, coalesce($from_ns, list_min([e.from_ns FOR e IN events])) AS event_ns,
        coalesce(list_bool_or([e.kind IN ('rate', 'delay') FOR e IN events]), false) AS loses_nothing,
        coalesce($to_ns, list_max([coalesce(e.to_ns, last_start_ns + 1) FOR e IN events])) AS end_ns
    FROM events
), event_slots AS (
    SELECT *, greatest(1, CAST(coalesce($slot_ms * 1e6, (end_ns - event_ns) / 4) AS BIGINT)) AS slot_ns
    FROM event_times
    WHERE end_ns > event_ns
)
