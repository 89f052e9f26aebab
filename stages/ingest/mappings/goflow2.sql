-- format: goflow2
-- title: NetFlow, IPFIX and sFlow as goflow2 writes them: JSON lines, keys of version 1 or 2
-- from: https://github.com/netsampler/goflow2 (README.md and docs/protocols.md)
-- rows: records
-- reads: json
-- column: type = $.type | $.Type
-- column: src_addr = $.src_addr | $.SrcAddr
-- column: dst_addr = $.dst_addr | $.DstAddr
-- column: src_port = $.src_port | $.SrcPort
-- column: dst_port = $.dst_port | $.DstPort
-- column: proto = $.proto | $.Proto
-- column: ip_tos = $.ip_tos | $.IPTos
-- column: sampler_address = $.sampler_address | $.SamplerAddress
-- column: in_if = $.in_if | $.InIf
-- column: bytes = $.bytes | $.Bytes
-- column: packets = $.packets | $.Packets
-- column: sampling_rate = $.sampling_rate | $.SamplingRate
-- column: received_ns = $.time_received_ns
-- column: start_ns = $.time_flow_start_ns
-- column: end_ns = $.time_flow_end_ns
-- column: received_s = $.TimeReceived
-- column: start_s = $.TimeFlowStart
-- column: end_s = $.TimeFlowEnd

-- One sFlow row is one sampled packet, of which the size is that of the Ethernet frame: 18 bytes more. It stands for
-- sampling_rate packets. NetFlow and IPFIX rows sum up what the router sampled of a connection. A sampling_rate of 0 is
-- an unknown one: that of --sampling-rate, or 1.
-- HUGEINT does not overflow here. With BIGINT the expression that start_ns and end_ns share fails in spite of TRY.
-- NetFlow's times are in ms of the router's uptime, or in whole seconds, as are all of goflow2 version 1.
SELECT "row",
  src_addr AS src,
  dst_addr AS dst,
  src_port,
  dst_port,
  proto AS protocol,
  whole(ip_tos) // 4 AS dscp,
  sampler_address AS observer,
  in_if AS interface,
  narrow(wide(whole(bytes)) - CASE WHEN type = 'SFLOW_5' THEN 18 ELSE 0 END) AS size_bytes,
  CASE WHEN type = 'SFLOW_5' THEN '1' ELSE packets END AS packets,
  CASE WHEN whole(sampling_rate) = 0 THEN NULL ELSE sampling_rate END AS sampling_rate,
  narrow(coalesce(whole(start_ns), wide(whole(start_s)) * 1000000000)) AS start_ns,
  narrow(coalesce(whole(received_ns), wide(whole(received_s)) * 1000000000)) AS received_ns,
  coalesce(
    or_beyond(narrow(coalesce(whole(end_ns), wide(whole(end_s)) * 1000000000)), coalesce(end_ns, end_s)),
    or_beyond(narrow(coalesce(whole(received_ns), wide(whole(received_s)) * 1000000000)),
      coalesce(received_ns, received_s))
  ) AS end_ns,
  CASE
    WHEN type = 'SFLOW_5' AND received_ns IS NOT NULL THEN 0
    WHEN ends_with(start_ns, '000000000') THEN 1000000000
    ELSE 1000000
  END AS start_resolution_ns,
  type = 'SFLOW_5' OR coalesce(whole(sampling_rate), 1) > 1 AS sampled
FROM source
