-- Percentiles of the slowdowns and of the FCTs in ms of view slowdowns, of each service and of all flows.
SELECT
    CASE grouping(service) WHEN 1 THEN 'all' ELSE service END, count(*),
    quantile_cont(slowdown, 0.5), quantile_cont(slowdown, 0.9), quantile_cont(slowdown, 0.99), quantile_cont(slowdown, 0.999),
    quantile_cont(fct_ns / 1e6, 0.5), quantile_cont(fct_ns / 1e6, 0.9), quantile_cont(fct_ns / 1e6, 0.99),
    quantile_cont(fct_ns / 1e6, 0.999)
FROM slowdowns
GROUP BY GROUPING SETS ((service), ())
HAVING count(*) > 0
