-- format: oci
-- title: Oracle Cloud VCN flow logs: JSON lines or one JSON list
-- from: https://docs.oracle.com/en-us/iaas/Content/Logging/Reference/details_for_vcn_flow_logs.htm
-- rows: records
-- reads: json
-- column: src = $.data.sourceAddress | $.logContent.data.sourceAddress
-- column: dst = $.data.destinationAddress | $.logContent.data.destinationAddress
-- column: src_port = $.data.sourcePort | $.logContent.data.sourcePort
-- column: dst_port = $.data.destinationPort | $.logContent.data.destinationPort
-- column: protocol = $.data.protocol | $.logContent.data.protocol
-- column: bytes_out = $.data.bytesOut | $.logContent.data.bytesOut
-- column: packets = $.data.packets | $.logContent.data.packets
-- column: start_s = $.data.startTime | $.logContent.data.startTime
-- column: end_s = $.data.endTime | $.logContent.data.endTime
-- column: action = $.data.action | $.logContent.data.action
-- column: status = $.data.status | $.logContent.data.status
-- column: vnic = $.oracle.vnicocid | $.logContent.oracle.vnicocid

-- A row is one direction of a connection at one network interface. Times are in seconds. Key logContent is that of searches
-- and of Connector Hub.
SELECT "row",
  src,
  dst,
  src_port,
  dst_port,
  protocol,
  vnic AS observer,
  bytes_out AS size_bytes,
  packets,
  narrow(wide(whole(start_s)) * 1000000000) AS start_ns,
  or_beyond(narrow(wide(whole(end_s)) * 1000000000), end_s) AS end_ns,
  1000000000 AS start_resolution_ns,
  CASE
    WHEN "status" IN ('NODATA', 'SKIPDATA') THEN 'status is ' || "status"
    WHEN "action" = 'REJECT' THEN 'action is REJECT'
  END AS set_aside
FROM source
