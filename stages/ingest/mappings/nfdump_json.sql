-- format: nfdump_json
-- title: NetFlow and IPFIX as nfdump -o json or -o ndjson writes them
-- from: https://github.com/phaag/nfdump (man nfdump, output formats json and ndjson)
-- rows: records
-- reads: json
-- column: type = $.type
-- column: first = $.first
-- column: last = $.last
-- column: received = $.received
-- column: src_addr = $.src4_addr | $.src6_addr
-- column: dst_addr = $.dst4_addr | $.dst6_addr
-- column: src_port = $.src_port
-- column: dst_port = $.dst_port
-- column: proto = $.proto
-- column: src_tos = $.src_tos
-- column: router = $.ip4_router | $.ip6_router
-- column: input_snmp = $.input_snmp
-- column: in_packets = $.in_packets
-- column: in_bytes = $.in_bytes
-- column: out_packets = $.out_packets
-- column: out_bytes = $.out_bytes

-- in_bytes are those of the flow; with -b or -B, out_bytes are those of the way back. Times are texts of the time zone of
-- nfdump, which TZ=UTC nfdump makes UTC, as they are read here.
SELECT "row",
  src_addr AS src,
  dst_addr AS dst,
  src_port,
  dst_port,
  proto AS protocol,
  whole(src_tos) // 4 AS dscp,
  router AS observer,
  input_snmp AS interface,
  in_bytes AS size_bytes,
  in_packets AS packets,
  out_bytes AS reverse_bytes,
  out_packets AS reverse_packets,
  datetime_ns("first") AS start_ns,
  or_beyond(datetime_ns("last"), "last") AS end_ns,
  rfc3339_resolution_ns("first") AS start_resolution_ns,
  datetime_ns(received) AS received_ns,
  CASE WHEN "type" <> 'FLOW' THEN 'type is ' || "type" END AS set_aside,
  CASE WHEN whole(in_bytes) > 0 AND whole(in_bytes) = whole(in_packets)
    THEN 'in_bytes is in_packets, a fault of nfdump -o ndjson in some versions: use -o json' END AS fault
FROM source
