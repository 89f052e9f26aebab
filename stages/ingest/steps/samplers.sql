-- Of each pair of hosts the observer that counted the most bytes of sampled records.
CREATE OR REPLACE TEMP TABLE samplers AS
SELECT src, dst, arg_max(observer, (size_bytes, observer)) AS sampler
FROM (SELECT src, dst, observer, sum(size_bytes) AS size_bytes FROM $records WHERE sampled GROUP BY ALL)
GROUP BY ALL
