SELECT
    i.scenario, i.variant, i.service, i.vnet, i.size_bin, max(i.flows) AS flows,
    max(i.lo) FILTER (WHERE i.quantile = 0.5) AS p50_lo, max(i.hi) FILTER (WHERE i.quantile = 0.5) AS p50_hi,
    max(i.lo) FILTER (WHERE i.quantile = 0.9) AS p90_lo, max(i.hi) FILTER (WHERE i.quantile = 0.9) AS p90_hi,
    max(i.lo) FILTER (WHERE i.quantile = 0.99) AS p99_lo, max(i.hi) FILTER (WHERE i.quantile = 0.99) AS p99_hi,
    max(i.lo) FILTER (WHERE i.quantile = 0.999) AS p999_lo, max(i.hi) FILTER (WHERE i.quantile = 0.999) AS p999_hi,
    concat_ws('; ',
        -- The sentences of table intervals are too long for a column of a table with one row for each group.
        string_agg(regexp_replace(i.warning, 'only (\d+) flows are above it;.*', 'few flows (\1)'), '; '
            ORDER BY i.quantile) FILTER (WHERE i.warning <> ''),
        'see warnings: ' || any_value(w.kinds)) AS warning
FROM intervals AS i
LEFT JOIN (
    SELECT scenario, variant, string_agg(DISTINCT kind, ', ' ORDER BY kind) AS kinds
    FROM warnings
    WHERE kind <> 'flows' -- remarks about the workload, which concern all groups alike
    GROUP BY scenario, variant
) AS w ON w.scenario = i.scenario AND w.variant = i.variant
GROUP BY i.scenario, i.variant, i.service, i.vnet, i.size_bin
