-- format: suricata
-- title: Suricata's eve.json, events of type flow
-- from: https://docs.suricata.io/en/latest/output/eve/eve-json-format.html
-- rows: records
-- reads: json
-- column: event_type = $.event_type
-- column: timestamp = $.timestamp
-- column: src_ip = $.src_ip
-- column: dest_ip = $.dest_ip
-- column: src_port = $.src_port
-- column: dest_port = $.dest_port
-- column: proto = $.proto
-- column: in_iface = $.in_iface
-- column: host = $.host
-- column: pkts_toserver = $.flow.pkts_toserver
-- column: pkts_toclient = $.flow.pkts_toclient
-- column: bytes_toserver = $.flow.bytes_toserver
-- column: bytes_toclient = $.flow.bytes_toclient
-- column: start = $.flow.start
-- column: end = $.flow.end

-- Events of other types, such as dns or alert, are about the same packets and are set aside. Bytes are those of Ethernet
-- frames as they were captured: 14 more than the packet. A TCP packet has 40 bytes or more, so a row with fewer than 54
-- bytes a packet was captured without Ethernet headers. Times of events apply only to flows without a start, because
-- Suricata writes the time of the first packet for all flows of a capture that it reads from a file.
SELECT "row",
  src_ip AS src,
  dest_ip AS dst,
  src_port,
  dest_port AS dst_port,
  proto AS protocol,
  host AS observer,
  in_iface AS interface,
  narrow(greatest(0, whole(bytes_toserver) - header * wide(coalesce(whole(pkts_toserver), 0)))) AS size_bytes,
  pkts_toserver AS packets,
  narrow(greatest(0, whole(bytes_toclient) - header * wide(coalesce(whole(pkts_toclient), 0)))) AS reverse_bytes,
  pkts_toclient AS reverse_packets,
  rfc3339_ns("start") AS start_ns,
  or_beyond(rfc3339_ns("end"), "end") AS end_ns,
  rfc3339_resolution_ns("start") AS start_resolution_ns,
  CASE WHEN rfc3339_ns("start") IS NULL THEN rfc3339_ns("timestamp") END AS received_ns,
  CASE WHEN event_type <> 'flow' THEN 'event_type is not flow' END AS set_aside
FROM (
  SELECT *, CASE WHEN coalesce(proto IN ('TCP', '6') AND (whole(bytes_toserver) < 54 * wide(whole(pkts_toserver))
    OR whole(bytes_toclient) < 54 * wide(whole(pkts_toclient))), false) THEN 0 ELSE 14 END AS header
  FROM source
)
