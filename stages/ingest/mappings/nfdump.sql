-- format: nfdump
-- title: NetFlow and IPFIX as nfdump -o csv or -o csv-fast writes them, long names (ts, sa, ibyt) or short ones (firstSeen, srcAddr, bytes)
-- from: https://github.com/phaag/nfdump (man nfdump, output format csv)
-- rows: records
-- reads: csv
-- end: Summary
-- column: ts
-- column: te
-- column: td
-- column: sa
-- column: da
-- column: sp
-- column: dp
-- column: pr
-- column: stos
-- column: ipkt
-- column: ibyt
-- column: ra
-- column: in
-- column: tr
-- column: firstseen
-- column: duration
-- column: proto
-- column: srcaddr
-- column: dstaddr
-- column: srcport
-- column: dstport
-- column: packets
-- column: bytes
-- column: opkt
-- column: obyt
-- column: lastseen
-- needs: sa|srcaddr da|dstaddr ts|firstseen ibyt|bytes

-- Times have no zone: nfdump writes those of its own, which TZ=UTC nfdump makes UTC, as they are read here. Since a
-- router ages its clock in ms, a flow's start is known to a ms, or to a second where the text has no fraction. csv-fast
-- has ms since 1970. With -b or -B, columns opkt and obyt have the way back.
SELECT "row",
  coalesce(sa, srcaddr) AS src,
  coalesce(da, dstaddr) AS dst,
  coalesce(sp, srcport) AS src_port,
  coalesce(dp, dstport) AS dst_port,
  coalesce(pr, proto) AS protocol,
  ra AS observer,
  "in" AS interface,
  coalesce(ibyt, bytes) AS size_bytes,
  coalesce(ipkt, packets) AS packets,
  obyt AS reverse_bytes,
  opkt AS reverse_packets,
  whole(stos) // 4 AS dscp,
  coalesce(datetime_ns(coalesce(ts, firstseen)), narrow(wide(whole(firstseen)) * 1000000)) AS start_ns,
  coalesce(
    or_beyond(coalesce(datetime_ns(coalesce(te, lastseen)), narrow(wide(whole(lastseen)) * 1000000)), coalesce(te, lastseen)),
    or_beyond(narrow(wide(datetime_ns(coalesce(ts, firstseen))) + seconds_ns(coalesce(duration, td))), coalesce(duration, td))
  ) AS end_ns,
  CASE WHEN whole(firstseen) IS NOT NULL THEN 1000000 ELSE rfc3339_resolution_ns(coalesce(ts, firstseen)) END
    AS start_resolution_ns,
  datetime_ns(tr) AS received_ns
FROM source
