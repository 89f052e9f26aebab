-- format: pmacct
-- title: pmacct, JSON lines of its print, kafka and amqp plugins
-- from: http://www.pmacct.net (CONFIG-KEYS, aggregate and print_output)
-- rows: records
-- reads: json
-- column: event_type = $.event_type
-- column: ip_src = $.ip_src
-- column: ip_dst = $.ip_dst
-- column: port_src = $.port_src
-- column: port_dst = $.port_dst
-- column: ip_proto = $.ip_proto
-- column: tos = $.tos
-- column: peer_ip_src = $.peer_ip_src
-- column: iface_in = $.iface_in
-- column: packets = $.packets
-- column: bytes = $.bytes
-- column: sampling_rate = $.sampling_rate
-- column: timestamp_start = $.timestamp_start
-- column: timestamp_end = $.timestamp_end
-- column: stamp_inserted = $.stamp_inserted
-- column: stamp_updated = $.stamp_updated

-- Times are texts of UTC, or seconds since 1970 where timestamps_since_epoch is set. Without the primitives
-- timestamp_start and timestamp_end, a row is what was counted from stamp_inserted to stamp_updated.
SELECT "row",
  ip_src AS src,
  ip_dst AS dst,
  port_src AS src_port,
  port_dst AS dst_port,
  ip_proto AS protocol,
  whole(tos) // 4 AS dscp,
  peer_ip_src AS observer,
  iface_in AS interface,
  bytes AS size_bytes,
  packets,
  CASE WHEN whole(sampling_rate) = 0 THEN NULL ELSE sampling_rate END AS sampling_rate,
  coalesce(seconds_ns(coalesce(timestamp_start, stamp_inserted)), datetime_ns(coalesce(timestamp_start, stamp_inserted))) AS start_ns,
  coalesce(seconds_ns(coalesce(timestamp_end, stamp_updated)), datetime_ns(coalesce(timestamp_end, stamp_updated))) AS end_ns,
  rfc3339_resolution_ns(coalesce(timestamp_start, stamp_inserted)) AS start_resolution_ns,
  coalesce(seconds_ns(stamp_updated), datetime_ns(stamp_updated)) AS received_ns,
  CASE WHEN event_type IN ('purge_init', 'purge_close') THEN 'event_type is ' || event_type END AS set_aside
FROM source
