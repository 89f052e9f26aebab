-- format: cicflowmeter
-- title: CICFlowMeter's CSV, with the names of its Java version (Src IP, Flow Duration) or of its Python version (src_ip, flow_duration)
-- from: https://github.com/ahlashkari/CICFlowMeter (ReadMe.txt)
-- rows: records
-- reads: csv
-- column: src_ip
-- column: source_ip
-- column: dst_ip
-- column: destination_ip
-- column: src_port
-- column: source_port
-- column: dst_port
-- column: destination_port
-- column: protocol
-- column: timestamp
-- column: flow_duration
-- column: total_length_of_fwd_packet
-- column: total_length_of_fwd_packets
-- column: totlen_fwd_pkts
-- column: total_length_of_bwd_packet
-- column: total_length_of_bwd_packets
-- column: totlen_bwd_pkts
-- needs: src_ip|source_ip dst_ip|destination_ip timestamp totlen_fwd_pkts|total_length_of_fwd_packet|total_length_of_fwd_packets

-- One row has both directions. Bytes are those of the payload, so the numbers of packets do not tell ACKs from data, and
-- a direction without payload is no flow. Durations are in µs. Times have no zone and are read as
-- UTC: day/month/year with AM or PM, as the Java version writes them, without seconds, as in the files of CIC-IDS2017, or
-- year-month-day.
SELECT "row",
  coalesce(src_ip, source_ip) AS src,
  coalesce(dst_ip, destination_ip) AS dst,
  coalesce(src_port, source_port) AS src_port,
  coalesce(dst_port, destination_port) AS dst_port,
  protocol,
  coalesce(totlen_fwd_pkts, total_length_of_fwd_packet, total_length_of_fwd_packets) AS size_bytes,
  coalesce(totlen_bwd_pkts, total_length_of_bwd_packet, total_length_of_bwd_packets) AS reverse_bytes,
  start_ns,
  narrow(wide(whole(flow_duration)) * 1000 + start_ns) AS end_ns,
  CASE
    WHEN datetime_ns("timestamp") IS NOT NULL THEN rfc3339_resolution_ns("timestamp")
    WHEN regexp_matches("timestamp", ':[0-9]+:') THEN 1000000000
    ELSE 60000000000
  END AS start_resolution_ns
FROM (
  SELECT *, coalesce(datetime_ns("timestamp"), narrow(1000 * wide(epoch_us(coalesce(
    try_strptime("timestamp", '%d/%m/%Y %I:%M:%S %p'), try_strptime("timestamp", '%d/%m/%Y %H:%M:%S'),
    try_strptime("timestamp", '%d/%m/%Y %I:%M %p'), try_strptime("timestamp", '%d/%m/%Y %H:%M')))))) AS start_ns
  FROM source
)
