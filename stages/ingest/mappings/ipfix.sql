-- format: ipfix
-- title: IPFIX as CSV or Parquet with the names of IANA's elements, such as sourceIPv4Address, octetDeltaCount, flowStartMilliseconds
-- from: https://www.iana.org/assignments/ipfix/ipfix.xhtml
-- rows: records
-- reads: csv
-- column: sourceipv4address
-- column: sourceipv6address
-- column: destinationipv4address
-- column: destinationipv6address
-- column: sourcetransportport
-- column: destinationtransportport
-- column: protocolidentifier
-- column: ipclassofservice
-- column: ipdiffservcodepoint
-- column: exporteripv4address
-- column: exporteripv6address
-- column: ingressinterface
-- column: octetdeltacount
-- column: octettotalcount
-- column: packetdeltacount
-- column: packettotalcount
-- column: samplinginterval
-- column: flowstartseconds
-- column: flowstartmilliseconds
-- column: flowstartmicroseconds
-- column: flowstartnanoseconds
-- column: flowendseconds
-- column: flowendmilliseconds
-- column: flowendmicroseconds
-- column: flowendnanoseconds
-- column: flowdurationmilliseconds
-- column: reverseoctetdeltacount
-- column: reverseoctettotalcount
-- column: reversepacketdeltacount
-- column: reversepackettotalcount
-- column: reverseflowstartmilliseconds
-- column: reverseflowdeltamicroseconds
-- needs: sourceipv4address|sourceipv6address destinationipv4address|destinationipv6address octetdeltacount|octettotalcount flowstartseconds|flowstartmilliseconds|flowstartmicroseconds|flowstartnanoseconds

-- Times are numbers since 1970 in the unit that their name says, or timestamps of UTC: 2026-01-31T09:00:00.123Z, or with a
-- space and without Z. Bytes include IP headers. Of a sampling exporter samplingInterval says the rate, where it is above 0;
-- else --sampling-rate does. Delta counts are since the record before; total counts of a connection with several records
-- would count more than once, so that delta counts apply where a file has both. Columns reverse… are those of biflows (RFC
-- 5103).
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
