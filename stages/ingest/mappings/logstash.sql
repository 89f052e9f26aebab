-- format: logstash
-- title: NetFlow and IPFIX as Logstash's netflow codec writes them: JSON lines with the fields below netflow
-- from: https://www.elastic.co/docs/reference/logstash/plugins/plugins-codecs-netflow
-- rows: records
-- reads: json
-- column: src_addr = $.netflow.ipv4_src_addr | $.netflow.ipv6_src_addr | $.netflow.sourceIPv4Address | $.netflow.sourceIPv6Address
-- column: dst_addr = $.netflow.ipv4_dst_addr | $.netflow.ipv6_dst_addr | $.netflow.destinationIPv4Address | $.netflow.destinationIPv6Address
-- column: src_port = $.netflow.l4_src_port | $.netflow.sourceTransportPort
-- column: dst_port = $.netflow.l4_dst_port | $.netflow.destinationTransportPort
-- column: protocol = $.netflow.protocol | $.netflow.protocolIdentifier
-- column: src_tos = $.netflow.src_tos | $.netflow.ipClassOfService
-- column: exporter = $.host
-- column: exporter_ip = $.host.ip
-- column: input_snmp = $.netflow.input_snmp | $.netflow.ingressInterface
-- column: sampling = $.netflow.sampling_interval | $.netflow.samplingInterval | $.netflow.samplingPacketInterval
-- column: bytes = $.netflow.in_bytes | $.netflow.octetDeltaCount
-- column: packets = $.netflow.in_pkts | $.netflow.packetDeltaCount
-- column: first = $.netflow.first_switched | $.netflow.flowStartMilliseconds | $.netflow.flowStartSeconds
-- column: last = $.netflow.last_switched | $.netflow.flowEndMilliseconds | $.netflow.flowEndSeconds
-- column: stamp = $."@timestamp"

-- The codec writes times as texts of UTC. @timestamp is the time of the export.
SELECT "row",
  src_addr AS src,
  dst_addr AS dst,
  src_port,
  dst_port,
  protocol,
  whole(src_tos) // 4 AS dscp,
  coalesce(exporter_ip, exporter) AS observer,
  input_snmp AS interface,
  bytes AS size_bytes,
  packets,
  CASE WHEN whole(sampling) = 0 THEN NULL ELSE sampling END AS sampling_rate,
  rfc3339_ns("first") AS start_ns,
  or_beyond(rfc3339_ns("last"), "last") AS end_ns,
  rfc3339_resolution_ns("first") AS start_resolution_ns,
  rfc3339_ns(stamp) AS received_ns
FROM source
