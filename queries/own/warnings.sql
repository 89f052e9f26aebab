-- The warnings about an estimate.
SELECT kind, warning FROM warnings
WHERE scenario = $scenario AND variant = $variant ORDER BY kind, measure DESC NULLS LAST, link_id, warning
