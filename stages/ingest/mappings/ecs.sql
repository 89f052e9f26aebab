-- format: ecs
-- title: Flows in the Elastic Common Schema, as Filebeat, Packetbeat and Elastic Agent write them: JSON lines with source.ip, destination.ip and network.bytes
-- from: https://www.elastic.co/docs/reference/ecs (field sets source, destination, network and event)
-- rows: records
-- reads: json
-- column: source_ip = $.source.ip | $."source.ip" | $._source.source.ip
-- column: destination_ip = $.destination.ip | $."destination.ip" | $._source.destination.ip
-- column: source_port = $.source.port | $."source.port" | $._source.source.port
-- column: destination_port = $.destination.port | $."destination.port" | $._source.destination.port
-- column: source_bytes = $.source.bytes | $."source.bytes" | $._source.source.bytes
-- column: source_packets = $.source.packets | $."source.packets" | $._source.source.packets
-- column: destination_bytes = $.destination.bytes | $."destination.bytes" | $._source.destination.bytes
-- column: destination_packets = $.destination.packets | $."destination.packets" | $._source.destination.packets
-- column: network_bytes = $.network.bytes | $."network.bytes" | $._source.network.bytes
-- column: network_packets = $.network.packets | $."network.packets" | $._source.network.packets
-- column: iana_number = $.network.iana_number | $."network.iana_number" | $._source.network.iana_number
-- column: transport = $.network.transport | $."network.transport" | $._source.network.transport
-- column: observer_ip = $.observer.ip | $."observer.ip" | $._source.observer.ip
-- column: ingress = $.netflow.ingress_interface | $."netflow.ingress_interface" | $._source.netflow.ingress_interface
-- column: sampling = $.netflow.sampling_interval | $."netflow.sampling_interval" | $._source.netflow.sampling_interval
-- column: event_start = $.event.start | $."event.start" | $._source.event.start
-- column: event_end = $.event.end | $."event.end" | $._source.event.end
-- column: event_duration = $.event.duration | $."event.duration" | $._source.event.duration
-- column: stamp = $."@timestamp" | $._source."@timestamp"
-- column: eve_type = $.suricata.eve.event_type | $."suricata.eve.event_type" | $._source.suricata.eve.event_type
-- column: final = $.flow.final | $."flow.final" | $._source.flow.final

-- source.bytes are from the source to the destination, destination.bytes the way back. Some collectors write network.bytes
-- alone, which is the sum of both. event.duration is in ns. Packetbeat reports a long flow several times, each time with
-- all bytes so far: only the final report counts. The time of an event of Suricata is no time of reception (see suricata).
SELECT "row",
  source_ip AS src,
  destination_ip AS dst,
  source_port AS src_port,
  destination_port AS dst_port,
  coalesce(iana_number, transport) AS protocol,
  trim(observer_ip, '[]" ') AS observer,
  ingress AS interface,
  coalesce(source_bytes, CAST(narrow(greatest(0, wide(whole(network_bytes)) - coalesce(whole(destination_bytes), 0))) AS VARCHAR)) AS size_bytes,
  coalesce(source_packets, CASE WHEN destination_bytes IS NULL THEN network_packets END) AS packets,
  destination_bytes AS reverse_bytes,
  destination_packets AS reverse_packets,
  CASE WHEN whole(sampling) = 0 THEN NULL ELSE sampling END AS sampling_rate,
  coalesce(rfc3339_ns(event_start), narrow(wide(rfc3339_ns(coalesce(event_end, stamp))) - coalesce(whole(event_duration), 0))) AS start_ns,
  coalesce(or_beyond(rfc3339_ns(event_end), event_end), narrow(wide(rfc3339_ns(event_start)) + whole(event_duration)),
    CASE WHEN eve_type IS NULL OR event_start IS NULL THEN rfc3339_ns(stamp) END) AS end_ns,
  rfc3339_resolution_ns(coalesce(event_start, event_end, stamp)) AS start_resolution_ns,
  CASE WHEN eve_type IS NULL OR event_start IS NULL THEN rfc3339_ns(stamp) END AS received_ns,
  CASE
    WHEN final = 'false' THEN 'flow.final is false: a later event has all bytes'
    WHEN source_ip IS NULL AND destination_ip IS NULL AND network_bytes IS NULL AND source_bytes IS NULL THEN 'no flow: an event of another kind'
  END AS set_aside
FROM source
