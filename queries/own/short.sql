-- The percentiles for which the workload is too short, by size bin, all flows first.
SELECT size_bin, string_agg(i.warning, ', ' ORDER BY i.quantile) AS warning
FROM intervals AS i JOIN size_bins AS b USING (size_bin)
WHERE i.scenario = $scenario AND i.variant = $variant AND i.service IS NULL AND i.vnet IS NULL AND i.warning <> ''
GROUP BY size_bin ORDER BY (size_bin = 'all') DESC, any_value(b.bin)
