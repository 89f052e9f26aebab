-- Flows and bytes by service and virtual network, most bytes first.
SELECT service, vnet, count(*), CAST(sum(size_bytes) AS BIGINT) AS bytes
FROM $flows GROUP BY ALL ORDER BY bytes DESC, service, vnet
