-- The hops of each flow, and what they add to its FCT. Table hop_contributions need not have the hops that add
-- nothing, so its rows are not counted.
, hop_delays AS NOT MATERIALIZED (
    SELECT scenario, variant, flow_row, link_id, true AS crossing, CAST(0 AS DOUBLE) AS delay_ns FROM crossings
    UNION ALL
    SELECT scenario, variant, flow_row, link_id, false, delay_ns FROM hop_contributions
)
