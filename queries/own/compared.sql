-- Whether the lake holds the comparison of two estimates that a report needs: by service, where there are several.
SELECT count(*) FILTER (service <> 'all') > 0 OR count(*) > 0 AND
    (SELECT count(DISTINCT service) FROM intervals WHERE scenario = $scenario AND variant = $variant) < 2 AS compared
FROM comparisons WHERE scenario = $scenario AND variant = $variant
    AND base_scenario = $base_scenario AND base_variant = $base_variant
