-- percentiles_of(relation, members, fractions) for values that fit in memory. It returns the same numbers.
percentiles_of(relation, members, fractions) AS TABLE
SELECT
    r.scenario, r.variant, m.of_group, count(*) AS flows, quantile_cont(r.value, fractions) AS q,
    max(r.value) AS max_value
FROM query_table(relation) AS r
JOIN query_table(members) AS m
  ON m.scenario = r.scenario AND m.variant = r.variant AND m.flow_group = r.flow_group
WHERE r.value IS NOT NULL
GROUP BY ALL
