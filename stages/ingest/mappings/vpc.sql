-- format: vpc
-- title: AWS VPC flow logs, versions 2 to 5: text with or without its header line, or Parquet
-- from: https://docs.aws.amazon.com/vpc/latest/userguide/flow-log-records.html
-- rows: records
-- reads: words
-- timed: 1
-- names: version account_id interface_id srcaddr dstaddr srcport dstport protocol packets bytes start end action log_status
-- column: interface_id
-- column: srcaddr
-- column: dstaddr
-- column: pkt_srcaddr
-- column: pkt_dstaddr
-- column: srcport
-- column: dstport
-- column: protocol
-- column: packets
-- column: bytes
-- column: start
-- column: end
-- column: action
-- column: log_status
-- column: flow_direction
-- column: vpc_id
-- needs: srcaddr|pkt_srcaddr dstaddr|pkt_dstaddr bytes start end

-- Names are the documented ones, small letters, with _ for -. A field that is - is NULL here. Times
-- are whole seconds, so a flow's start is known to a second: start_resolution_ns. Bytes include IP
-- headers; to take them off, say e.g. whole(bytes) - 40 * whole(packets) AS size_bytes. AWS does not sample.
-- pkt-srcaddr and pkt-dstaddr are the ends of the connection where the interface's are a gateway's.
SELECT "row",
  coalesce(pkt_srcaddr, srcaddr) AS src,
  coalesce(pkt_dstaddr, dstaddr) AS dst,
  srcport AS src_port,
  dstport AS dst_port,
  protocol,
  coalesce(interface_id, flow_direction) AS observer,
  bytes AS size_bytes,
  packets,
  1 AS sampling_rate,
  narrow(wide(whole(start)) * 1000000000) AS start_ns,
  or_beyond(narrow(wide(whole("end")) * 1000000000), "end") AS end_ns,
  1000000000 AS start_resolution_ns,
  vpc_id AS vnet,
  CASE
    WHEN log_status IN ('NODATA', 'SKIPDATA') THEN 'log-status is ' || log_status
    WHEN action = 'REJECT' THEN 'action is REJECT'
  END AS set_aside
FROM source
