-- Reports whether the lake has the comparison of two estimates that a report needs, by service if there are several services.
SELECT count(*) FILTER (service <> 'all') > 0 OR count(*) > 0 AND
    (SELECT count(DISTINCT service) FROM intervals WHERE scenario = $scenario AND variant = $variant) < 2 AS compared
FROM comparisons WHERE scenario = $scenario AND variant = $variant
    AND base_scenario = $base_scenario AND base_variant = $base_variant
