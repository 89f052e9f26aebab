-- format: ibm_vpc
-- title: IBM Cloud flow logs for VPC: JSON objects with the list flow_logs
-- from: https://cloud.ibm.com/docs/vpc?topic=vpc-fl-analyze
-- rows: records
-- reads: json
-- each: flow_logs
-- column: vnic = $.network_interface_id
-- column: start_time = $.start_time
-- column: end_time = $.end_time
-- column: action = $.action
-- column: initiator_ip = $.initiator_ip
-- column: target_ip = $.target_ip
-- column: initiator_port = $.initiator_port
-- column: target_port = $.target_port
-- column: transport_protocol = $.transport_protocol
-- column: bytes_from_initiator = $.bytes_from_initiator
-- column: packets_from_initiator = $.packets_from_initiator
-- column: bytes_from_target = $.bytes_from_target
-- column: packets_from_target = $.packets_from_target

-- A row has the bytes of both directions since the row before it. Columns cumulative_… have all bytes of the connection so
-- far, and are not read. Each network interface records its connections, so a connection within a VPC has two observers.
-- IBM Cloud does not sample.
SELECT "row",
  initiator_ip AS src,
  target_ip AS dst,
  initiator_port AS src_port,
  target_port AS dst_port,
  transport_protocol AS protocol,
  vnic AS observer,
  coalesce(bytes_from_initiator, '0') AS size_bytes,
  packets_from_initiator AS packets,
  bytes_from_target AS reverse_bytes,
  packets_from_target AS reverse_packets,
  1 AS sampling_rate,
  datetime_ns(start_time) AS start_ns,
  or_beyond(datetime_ns(end_time), end_time) AS end_ns,
  rfc3339_resolution_ns(start_time) AS start_resolution_ns,
  CASE WHEN action = 'rejected' THEN 'action is rejected' END AS set_aside
FROM source
