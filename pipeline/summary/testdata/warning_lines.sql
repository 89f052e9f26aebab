-- The warnings about an estimate: a line for each cause, with the number of affected links and a remedy, and a line
-- about the percentiles for which the workload is too short.
SELECT
    kind || ': ' || first(warning ORDER BY measure DESC NULLS LAST, link_id)
        || CASE WHEN count(*) > 1 THEN ' (the largest of ' || count(*) || ' of them)' ELSE '' END AS line,
    1 AS place, kind
FROM warnings
GROUP BY kind, CASE WHEN link_id IS NULL THEN warning END
UNION ALL
SELECT
    'few flows: the workload is too short to be sure of ' || string_agg(percentiles
        || CASE size_bin WHEN 'all' THEN ' of all flows' ELSE ' of ' || size_bin END, '; ' ORDER BY bin)
        || '. Estimate ' || 'LONGER' || ', or use lower percentiles',
    2, ''
FROM (
    SELECT
        size_bin, any_value(b.bin) AS bin,
        CASE count(*) WHEN 4 THEN 'any percentile' ELSE
            string_agg('p' || replace(CAST(CAST(100 * quantile AS DECIMAL(4, 1)) AS VARCHAR), '.0', ''), ', ' ORDER BY quantile)
            END AS percentiles
    FROM intervals
    JOIN size_bins AS b USING (size_bin)
    WHERE service IS NULL AND vnet IS NULL AND warning <> ''
    GROUP BY size_bin
)
HAVING count(*) > 0
ORDER BY place, kind, line
