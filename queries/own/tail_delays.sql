-- The delay of the flows of table tail at each link, and the load of the link, in the estimate $side of a comparison. Delays
-- are summed as whole multiples of 1/1000 ns, so that the sum does not depend on the order.
SELECT link_id, coalesce(ns, 0), coalesce(load, 0)
FROM $side_link_stats
FULL JOIN (
    SELECT link_id, sum(round(delay_ns * 1000)::BIGINT)::DOUBLE / 1000 AS ns
    FROM $side_hop_contributions AS h
    SEMI JOIN tail ON tail.$side_row = h.flow_row
    GROUP BY link_id
) USING (link_id)
