-- format: sflowtool
-- title: sFlow as sflowtool -L writes it, one sampled packet a row, under a header line of the fields' names
-- from: https://github.com/sflow/sflowtool (README, options -l and -L)
-- rows: records
-- reads: csv
-- column: unixsecondsutc
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
-- needs: unixsecondsutc srcip|srcip6 dstip|dstip6 sampledpacketsize|packet_size meanskipcount|sampling_rate

-- For example: sflowtool -r FILE -L unixSecondsUTC,agent,inputPort,srcIP,dstIP,IPProtocol,TCPSrcPort,TCPDstPort,
-- sampledPacketSize,meanSkipCount, with these names as the first line. A row is one packet that stands for
-- meanSkipCount of them, at a time that is known to a second. Sizes are those of Ethernet frames: 18 bytes more than
-- the packet, and 64 at least.
SELECT "row",
  coalesce(srcip, srcip6) AS src,
  coalesce(dstip, dstip6) AS dst,
  coalesce(tcpsrcport, udpsrcport, src_port_or_icmp_type) AS src_port,
  coalesce(tcpdstport, udpdstport, dst_port_or_icmp_code) AS dst_port,
  coalesce(ipprotocol, ip_protocol) AS protocol,
  TRY_CAST(coalesce(iptos, ip_tos) AS UTINYINT) // 4 AS dscp,
  agent AS observer,
  inputport AS interface,
  TRY(whole(coalesce(sampledpacketsize, packet_size)) - 18) AS size_bytes,
  1 AS packets,
  greatest(coalesce(whole(meanskipcount), whole(sampling_rate), 1), 1) AS sampling_rate,
  TRY(whole(unixsecondsutc) * 1000000000) AS start_ns,
  1000000000 AS start_resolution_ns,
  true AS sampled
FROM source
