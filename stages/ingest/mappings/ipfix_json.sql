-- format: ipfix_json
-- title: IPFIX as JSON with the names of IANA's elements, as super_mediator and Antrea write it: JSON lines or one JSON list
-- from: https://www.iana.org/assignments/ipfix/ipfix.xhtml
-- rows: records
-- reads: json
-- column: sourceipv4address = $.sourceIPv4Address | $.flows.sourceIPv4Address
-- column: sourceipv6address = $.sourceIPv6Address | $.flows.sourceIPv6Address
-- column: destinationipv4address = $.destinationIPv4Address | $.flows.destinationIPv4Address
-- column: destinationipv6address = $.destinationIPv6Address | $.flows.destinationIPv6Address
-- column: sourcetransportport = $.sourceTransportPort | $.flows.sourceTransportPort
-- column: destinationtransportport = $.destinationTransportPort | $.flows.destinationTransportPort
-- column: protocolidentifier = $.protocolIdentifier | $.flows.protocolIdentifier
-- column: ipclassofservice = $.ipClassOfService | $.flows.ipClassOfService
-- column: ipdiffservcodepoint = $.ipDiffServCodePoint | $.flows.ipDiffServCodePoint
-- column: exporteripv4address = $.exporterIPv4Address | $.flows.exporterIPv4Address
-- column: exporteripv6address = $.exporterIPv6Address | $.flows.exporterIPv6Address
-- column: ingressinterface = $.ingressInterface | $.flows.ingressInterface
-- column: octetdeltacount = $.octetDeltaCount | $.flows.octetDeltaCount
-- column: octettotalcount = $.octetTotalCount | $.flows.octetTotalCount
-- column: packetdeltacount = $.packetDeltaCount | $.flows.packetDeltaCount
-- column: packettotalcount = $.packetTotalCount | $.flows.packetTotalCount
-- column: samplinginterval = $.samplingInterval | $.flows.samplingInterval
-- column: flowstartseconds = $.flowStartSeconds | $.flows.flowStartSeconds
-- column: flowstartmilliseconds = $.flowStartMilliseconds | $.flows.flowStartMilliseconds
-- column: flowstartmicroseconds = $.flowStartMicroseconds | $.flows.flowStartMicroseconds
-- column: flowstartnanoseconds = $.flowStartNanoseconds | $.flows.flowStartNanoseconds
-- column: flowendseconds = $.flowEndSeconds | $.flows.flowEndSeconds
-- column: flowendmilliseconds = $.flowEndMilliseconds | $.flows.flowEndMilliseconds
-- column: flowendmicroseconds = $.flowEndMicroseconds | $.flows.flowEndMicroseconds
-- column: flowendnanoseconds = $.flowEndNanoseconds | $.flows.flowEndNanoseconds
-- column: flowdurationmilliseconds = $.flowDurationMilliseconds | $.flows.flowDurationMilliseconds
-- column: reverseoctetdeltacount = $.reverseOctetDeltaCount | $.flows.reverseOctetDeltaCount
-- column: reverseoctettotalcount = $.reverseOctetTotalCount | $.flows.reverseOctetTotalCount
-- column: reversepacketdeltacount = $.reversePacketDeltaCount | $.flows.reversePacketDeltaCount
-- column: reversepackettotalcount = $.reversePacketTotalCount | $.flows.reversePacketTotalCount
-- column: reverseflowstartmilliseconds = $.reverseFlowStartMilliseconds | $.flows.reverseFlowStartMilliseconds
-- column: reverseflowdeltamicroseconds = $.reverseFlowDeltaMicroseconds | $.flows.reverseFlowDeltaMicroseconds

-- As format ipfix. Key flows is that of YAF and super_mediator.
SELECT "row",
  coalesce(sourceipv4address, sourceipv6address) AS src,
  coalesce(destinationipv4address, destinationipv6address) AS dst,
  sourcetransportport AS src_port,
  destinationtransportport AS dst_port,
  protocolidentifier AS protocol,
  coalesce(ipdiffservcodepoint, CAST(whole(ipclassofservice) // 4 AS VARCHAR)) AS dscp,
  coalesce(exporteripv4address, exporteripv6address) AS observer,
  ingressinterface AS interface,
  coalesce(octetdeltacount, octettotalcount) AS size_bytes,
  coalesce(packetdeltacount, packettotalcount) AS packets,
  coalesce(reverseoctetdeltacount, reverseoctettotalcount) AS reverse_bytes,
  coalesce(reversepacketdeltacount, reversepackettotalcount) AS reverse_packets,
  coalesce(narrow(wide(whole(reverseflowstartmilliseconds)) * 1000000),
    narrow(wide(whole(reverseflowdeltamicroseconds)) * 1000 + start_ns)) AS reverse_start_ns,
  CASE WHEN whole(samplinginterval) = 0 THEN NULL ELSE samplinginterval END AS sampling_rate,
  start_ns,
  coalesce(
    or_beyond(narrow(coalesce(
      wide(whole(flowendnanoseconds)), wide(whole(flowendmicroseconds)) * 1000, wide(whole(flowendmilliseconds)) * 1000000,
      wide(whole(flowendseconds)) * 1000000000, rfc3339_ns(end_text), datetime_ns(end_text))), end_text),
    or_beyond(narrow(wide(whole(flowdurationmilliseconds)) * 1000000 + start_ns), flowdurationmilliseconds)
  ) AS end_ns,
  CASE
    WHEN rfc3339_ns(start_text) IS NOT NULL OR datetime_ns(start_text) IS NOT NULL THEN rfc3339_resolution_ns(start_text)
    WHEN flowstartnanoseconds IS NOT NULL THEN 0
    WHEN flowstartmicroseconds IS NOT NULL THEN 1000
    WHEN flowstartmilliseconds IS NOT NULL THEN 1000000
    ELSE 1000000000
  END AS start_resolution_ns
FROM (
  SELECT *,
    narrow(coalesce(
      wide(whole(flowstartnanoseconds)), wide(whole(flowstartmicroseconds)) * 1000,
      wide(whole(flowstartmilliseconds)) * 1000000, wide(whole(flowstartseconds)) * 1000000000,
      rfc3339_ns(start_text), datetime_ns(start_text))) AS start_ns
  FROM (
    SELECT *,
      coalesce(flowstartnanoseconds, flowstartmicroseconds, flowstartmilliseconds, flowstartseconds) AS start_text,
      coalesce(flowendnanoseconds, flowendmicroseconds, flowendmilliseconds, flowendseconds) AS end_text
    FROM source
  )
)
