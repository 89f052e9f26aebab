-- format: argus
-- title: Argus records as ra writes them as CSV (ra -r FILE -n -c , -u -s stime ltime proto saddr sport daddr dport spkts dpkts sbytes dbytes), and binetflow files such as those of CTU-13
-- from: https://openargus.org (man ra, option -s)
-- rows: records
-- reads: csv
-- column: stime
-- column: starttime
-- column: ltime
-- column: lasttime
-- column: dur
-- column: proto
-- column: saddr
-- column: srcaddr
-- column: sport
-- column: daddr
-- column: dstaddr
-- column: dport
-- column: spkts
-- column: srcpkts
-- column: dpkts
-- column: dstpkts
-- column: sbytes
-- column: srcbytes
-- column: dbytes
-- column: dstbytes
-- column: totpkts
-- column: pkts
-- column: totbytes
-- column: bytes
-- needs: stime|starttime saddr|srcaddr daddr|dstaddr sbytes|srcbytes dbytes|dstbytes|totbytes|bytes

-- One row has both directions. -u writes times as seconds since 1970, which leave no doubt about the day or the time zone;
-- times with a date and no zone are read as UTC. -n writes ports as numbers. Bytes are those of Ethernet frames: 14 more
-- than the packet. If a file has the bytes and packets of both directions only as totals (totbytes, totpkts), as in
-- binetflow files, the reverse direction has the rest of the bytes, and the 14 bytes are counted as part of the packets.
-- A TCP packet has 40 bytes or more, so a row with fewer than 54 bytes a packet, as of a tunnel, has no Ethernet headers.
WITH totals AS (
  SELECT *,
    coalesce(sbytes, srcbytes) AS forward_frames,
    coalesce(dbytes, dstbytes,
      CAST(narrow(wide(whole(coalesce(totbytes, bytes))) - whole(coalesce(sbytes, srcbytes))) AS VARCHAR)) AS reverse_frames,
    coalesce(spkts, srcpkts) AS forward_packets,
    coalesce(dpkts, dstpkts,
      CAST(narrow(wide(whole(coalesce(totpkts, pkts))) - whole(coalesce(spkts, srcpkts))) AS VARCHAR)) AS back_packets,
    replace(coalesce(stime, starttime), '/', '-') AS stime_text,
    replace(coalesce(ltime, lasttime), '/', '-') AS ltime_text
  FROM source
), timed AS (
  SELECT *, coalesce(seconds_ns(stime_text), datetime_ns(stime_text)) AS start_ns,
    CASE WHEN coalesce(proto IN ('tcp', '6') AND (whole(forward_frames) < 54 * wide(whole(forward_packets))
      OR whole(reverse_frames) < 54 * wide(whole(back_packets))), false) THEN 0 ELSE 14 END AS header
  FROM totals
)
SELECT "row",
  coalesce(saddr, srcaddr) AS src,
  coalesce(daddr, dstaddr) AS dst,
  sport AS src_port,
  dport AS dst_port,
  proto AS protocol,
  narrow(greatest(0, whole(forward_frames) - header * wide(coalesce(whole(forward_packets), 0)))) AS size_bytes,
  forward_packets AS packets,
  narrow(greatest(0, whole(reverse_frames) - header * wide(coalesce(whole(back_packets), 0)))) AS reverse_bytes,
  back_packets AS reverse_packets,
  start_ns,
  coalesce(seconds_ns(ltime_text), datetime_ns(ltime_text), narrow(wide(start_ns) + seconds_ns(dur))) AS end_ns,
  CASE
    WHEN start_ns IS NULL THEN 'stime is no time: ra -u writes seconds since 1970'
    WHEN proto IN ('tcp', 'udp', '6', '17') AND regexp_matches(coalesce(sport, '') || ',' || coalesce(dport, ''), '[g-w y-z]|[a-z]{3}')
      THEN 'a port is a name: ra -n writes numbers'
  END AS fault,
  CASE WHEN proto IN ('man', 'arp', 'llc') THEN 'not IP' END AS set_aside
FROM timed
