-- format: sflowtool
-- title: sFlow as sflowtool -L writes it, one sampled packet a row, under a header line of the fields' names
-- from: https://github.com/sflow/sflowtool (README, options -l and -L)
-- rows: records
-- reads: csv
-- column: unixsecondsutc
-- column: pcaptimestamp
-- column: srcip
-- column: dstip
-- column: srcip6
-- column: dstip6
-- column: ipprotocol
-- column: ip_protocol
-- column: iptos
-- column: ip_tos
-- column: tcpsrcport
-- column: tcpdstport
-- column: udpsrcport
-- column: udpdstport
-- column: src_port_or_icmp_type
-- column: dst_port_or_icmp_code
-- column: agent
-- column: inputport
-- column: sampledpacketsize
-- column: packet_size
-- column: meanskipcount
-- column: sampling_rate
-- needs: unixsecondsutc|pcaptimestamp srcip|srcip6 dstip|dstip6 sampledpacketsize|packet_size meanskipcount|sampling_rate

-- For example: sflowtool -r FILE -L pcapTimestamp,agent,inputPort,srcIP,dstIP,IPProtocol,TCPSrcPort,TCPDstPort,
-- sampledPacketSize,meanSkipCount, with these names as the first line. A row is one packet that stands for
-- meanSkipCount of them, at a time that is known to a second. With -r, unixSecondsUTC is 0, and pcapTimestamp has the
-- time of the packet. Sizes are those of Ethernet frames: 18 bytes more than
-- the packet, and 64 at least.
SELECT "row",
  coalesce(srcip, srcip6) AS src,
  coalesce(dstip, dstip6) AS dst,
  coalesce(tcpsrcport, udpsrcport, src_port_or_icmp_type) AS src_port,
  coalesce(tcpdstport, udpdstport, dst_port_or_icmp_code) AS dst_port,
  coalesce(ipprotocol, ip_protocol) AS protocol,
  coalesce(whole(coalesce(iptos, ip_tos)), TRY_CAST(coalesce(iptos, ip_tos) AS UTINYINT)) // 4 AS dscp,
  agent AS observer,
  inputport AS interface,
  narrow(wide(whole(coalesce(sampledpacketsize, packet_size))) - 18) AS size_bytes,
  1 AS packets,
  coalesce(CASE WHEN whole(coalesce(meanskipcount, sampling_rate)) = 0 THEN '1' ELSE coalesce(meanskipcount, sampling_rate) END, '1')
    AS sampling_rate,
  coalesce(narrow(wide(nullif(whole(unixsecondsutc), 0)) * 1000000000), rfc3339_ns(pcaptimestamp)) AS start_ns,
  CASE WHEN whole(unixsecondsutc) = 0 AND rfc3339_ns(pcaptimestamp) IS NULL
    THEN 'no time: with -r, sflowtool writes unixSecondsUTC as 0 (give -L pcapTimestamp, too)' END AS fault,
  1000000000 AS start_resolution_ns,
  true AS sampled
FROM source
