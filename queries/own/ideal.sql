-- Flows with another ideal FCT than in the base.
SELECT count(*) FILTER (s.start_ns = b.start_ns) AS pairs,
    if(pairs > 0, count(*) FILTER (s.ideal_ns <> b.ideal_ns), 0) AS flows
FROM slowdowns AS s JOIN slowdowns AS b USING (flow_id, size_bytes)
WHERE s.scenario = $scenario AND s.variant = $variant AND b.scenario = $base_scenario AND b.variant = $base_variant
