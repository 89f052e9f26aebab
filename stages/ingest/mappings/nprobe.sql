-- format: nprobe
-- title: nProbe, ntopng and other collectors with the names of NetFlow 9 as JSON lines: IPV4_SRC_ADDR, IN_BYTES, OUT_BYTES, FIRST_SWITCHED
-- from: https://www.ntop.org/guides/nprobe/flow_information_elements.html
-- rows: records
-- reads: json
-- column: src_addr = $.IPV4_SRC_ADDR | $.IPV6_SRC_ADDR
-- column: dst_addr = $.IPV4_DST_ADDR | $.IPV6_DST_ADDR
-- column: src_port = $.L4_SRC_PORT | $.IP_SRC_PORT
-- column: dst_port = $.L4_DST_PORT | $.IP_DST_PORT
-- column: protocol = $.PROTOCOL
-- column: src_tos = $.SRC_TOS | $.TOS
-- column: exporter = $.EXPORTER_IPV4_ADDRESS | $.NPROBE_IPV4_ADDRESS
-- column: input_snmp = $.INPUT_SNMP
-- column: sampling_interval = $.SAMPLING_INTERVAL
-- column: in_bytes = $.IN_BYTES | $.SRC2DST_BYTES
-- column: in_pkts = $.IN_PKTS | $.SRC2DST_PACKETS
-- column: out_bytes = $.OUT_BYTES | $.DST2SRC_BYTES
-- column: out_pkts = $.OUT_PKTS | $.DST2SRC_PACKETS
-- column: first_s = $.FIRST_SWITCHED | $.FIRST_SEEN
-- column: last_s = $.LAST_SWITCHED | $.LAST_SEEN
-- column: first_ms = $.FLOW_START_MILLISECONDS
-- column: last_ms = $.FLOW_END_MILLISECONDS

-- IN_BYTES are from the source to the destination, OUT_BYTES the way back. FIRST_SWITCHED is in seconds since 1970 as
-- nProbe writes it; routers have it in ms since they started, which is no time and rejected.
SELECT "row",
  src_addr AS src,
  dst_addr AS dst,
  src_port,
  dst_port,
  protocol,
  whole(src_tos) // 4 AS dscp,
  exporter AS observer,
  input_snmp AS interface,
  in_bytes AS size_bytes,
  in_pkts AS packets,
  out_bytes AS reverse_bytes,
  out_pkts AS reverse_packets,
  CASE WHEN whole(sampling_interval) = 0 THEN NULL ELSE sampling_interval END AS sampling_rate,
  narrow(coalesce(wide(whole(first_ms)) * 1000000, wide(whole(first_s)) * 1000000000)) AS start_ns,
  narrow(coalesce(wide(whole(last_ms)) * 1000000, wide(whole(last_s)) * 1000000000)) AS end_ns,
  CASE WHEN first_ms IS NULL THEN 1000000000 ELSE 1000000 END AS start_resolution_ns
FROM source
