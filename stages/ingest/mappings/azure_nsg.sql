-- format: azure_nsg
-- title: Azure NSG flow logs, version 2: JSON with the tuples of flows below records
-- from: https://learn.microsoft.com/azure/network-watcher/nsg-flow-logs-overview
-- rows: records
-- reads: json
-- each: records.properties.flows.flows.flowTuples
-- column: tuple = $.value
-- column: mac = $.mac

-- A tuple is time, src, dst, ports, protocol (T or U), direction, decision (A or D), state (B, C or E), and packets and
-- bytes from src to dst and back since the tuple before. That of state B begins a flow and has no bytes. The bytes of the
-- others came since the tuple of the same flow before it, if the file has one.
WITH fields AS (
  SELECT "row", mac, string_split(tuple, ',') AS f FROM source
), timed AS (
  SELECT *, narrow(wide(whole(f[1])) * 1000000000) AS at_ns,
    lag(narrow(wide(whole(f[1])) * 1000000000)) OVER (PARTITION BY mac, f[2], f[3], f[4], f[5], f[6] ORDER BY whole(f[1]), "row") AS before_ns
  FROM fields
)
SELECT "row",
  f[2] AS src,
  f[3] AS dst,
  f[4] AS src_port,
  f[5] AS dst_port,
  CASE f[6] WHEN 'T' THEN 'TCP' WHEN 'U' THEN 'UDP' ELSE f[6] END AS protocol,
  mac AS observer,
  coalesce(nullif(f[11], ''), '0') AS size_bytes,
  nullif(f[10], '') AS packets,
  f[13] AS reverse_bytes,
  nullif(f[12], '') AS reverse_packets,
  CASE WHEN f[9] IN ('C', 'E') AND at_ns - before_ns <= 600000000000 THEN before_ns ELSE at_ns END AS start_ns,
  at_ns AS end_ns,
  1000000000 AS start_resolution_ns,
  1 AS sampling_rate,
  CASE WHEN f[8] = 'D' THEN 'denied' WHEN f[9] = 'B' THEN 'flow state B: no bytes yet' END AS set_aside,
  CASE WHEN len(f) = 8 THEN 'version 1 has no bytes: set the flow log to version 2' END AS fault
FROM timed
