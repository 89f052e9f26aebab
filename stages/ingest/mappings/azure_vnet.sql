-- format: azure_vnet
-- title: Azure virtual network flow logs: JSON with the tuples of flows below records
-- from: https://learn.microsoft.com/azure/network-watcher/vnet-flow-logs-overview
-- rows: records
-- reads: json
-- each: records.flowRecords.flows.flowGroups.flowTuples
-- column: tuple = $.value
-- column: mac = $.macAddress

-- A tuple is time in ms, src, dst, ports, protocol number, direction, state (B, C, E, or D: denied), encryption, and
-- packets and bytes from src to dst and back since the tuple before. That of state B begins a flow and has no bytes. The
-- bytes of the others came since the tuple of the same flow before it, if the file has one.
WITH fields AS (
  SELECT "row", mac, string_split(tuple, ',') AS f FROM source
), timed AS (
  SELECT *, narrow(wide(whole(f[1])) * 1000000) AS at_ns,
    lag(narrow(wide(whole(f[1])) * 1000000)) OVER (PARTITION BY mac, f[2], f[3], f[4], f[5], f[6] ORDER BY whole(f[1]), "row") AS before_ns
  FROM fields
)
SELECT "row",
  f[2] AS src,
  f[3] AS dst,
  f[4] AS src_port,
  f[5] AS dst_port,
  f[6] AS protocol,
  mac AS observer,
  coalesce(nullif(f[11], ''), '0') AS size_bytes,
  nullif(f[10], '') AS packets,
  f[13] AS reverse_bytes,
  nullif(f[12], '') AS reverse_packets,
  CASE WHEN f[8] IN ('C', 'E') AND at_ns - before_ns <= 600000000000 THEN before_ns ELSE at_ns END AS start_ns,
  at_ns AS end_ns,
  1000000 AS start_resolution_ns,
  1 AS sampling_rate,
  CASE f[8] WHEN 'D' THEN 'denied' WHEN 'B' THEN 'flow state B: no bytes yet' END AS set_aside
FROM timed
