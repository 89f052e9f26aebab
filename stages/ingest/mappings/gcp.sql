-- format: gcp
-- title: Google Cloud VPC flow logs: JSON lines (as exported to a bucket) or one JSON list
-- from: https://cloud.google.com/vpc/docs/about-flow-logs-records
-- rows: records
-- reads: json
-- column: src_ip = $.jsonPayload.connection.src_ip | $.connection.src_ip
-- column: dest_ip = $.jsonPayload.connection.dest_ip | $.connection.dest_ip
-- column: src_port = $.jsonPayload.connection.src_port | $.connection.src_port
-- column: dest_port = $.jsonPayload.connection.dest_port | $.connection.dest_port
-- column: protocol = $.jsonPayload.connection.protocol | $.connection.protocol
-- column: reporter = $.jsonPayload.reporter | $.reporter
-- column: bytes_sent = $.jsonPayload.bytes_sent | $.bytes_sent
-- column: packets_sent = $.jsonPayload.packets_sent | $.packets_sent
-- column: start_time = $.jsonPayload.start_time | $.start_time
-- column: end_time = $.jsonPayload.end_time | $.end_time
-- column: src_vpc = $.jsonPayload.src_vpc.vpc_name | $.src_vpc.vpc_name
-- column: dscp = $.jsonPayload.network_service.dscp | $.network_service.dscp
-- column: dest_vpc = $.jsonPayload.dest_vpc.vpc_name | $.dest_vpc.vpc_name

-- Google samples packets and scales the byte counts up before it logs them, so that start_time is
-- when the first SAMPLED packet was seen: the flows count as sampled. What start_time leaves out
-- of its fraction of a second is not known.
SELECT "row",
  src_ip AS src,
  dest_ip AS dst,
  src_port,
  dest_port AS dst_port,
  protocol,
  reporter AS observer,
  bytes_sent AS size_bytes,
  packets_sent AS packets,
  rfc3339_ns(start_time) AS start_ns,
  or_beyond(rfc3339_ns(end_time), end_time) AS end_ns,
  rfc3339_resolution_ns(start_time) AS start_resolution_ns,
  true AS sampled,
  dscp,
  coalesce(dest_vpc, src_vpc) AS vnet
FROM source
