-- format: argus
-- title: Argus records as ra writes them as CSV: ra -r FILE -n -c , -u -s stime ltime proto saddr sport daddr dport spkts dpkts sbytes dbytes
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
-- needs: stime|starttime saddr|srcaddr daddr|dstaddr sbytes|srcbytes dbytes|dstbytes

-- One row has both directions. -u writes times as seconds since 1970, which leave no doubt about the day or the time zone;
-- -n writes ports as numbers. Bytes are those of Ethernet frames: 14 more than the packet.
SELECT "row",
  coalesce(saddr, srcaddr) AS src,
  coalesce(daddr, dstaddr) AS dst,
  sport AS src_port,
  dport AS dst_port,
  proto AS protocol,
  TRY(greatest(0, whole(coalesce(sbytes, srcbytes)) - 14 * coalesce(whole(coalesce(spkts, srcpkts)), 0))) AS size_bytes,
  coalesce(spkts, srcpkts) AS packets,
  TRY(greatest(0, whole(coalesce(dbytes, dstbytes)) - 14 * coalesce(whole(coalesce(dpkts, dstpkts)), 0))) AS reverse_bytes,
  coalesce(dpkts, dstpkts) AS reverse_packets,
  start_ns,
  coalesce(seconds_ns(coalesce(ltime, lasttime)), datetime_ns(coalesce(ltime, lasttime)), TRY(start_ns + seconds_ns(dur))) AS end_ns,
  CASE
    WHEN start_ns IS NULL THEN 'stime is no time: ra -u writes seconds since 1970'
    WHEN regexp_matches(coalesce(sport, '') || coalesce(dport, ''), '[g-w y-z]|[a-z]{3}') THEN 'a port is a name: ra -n writes numbers'
  END AS fault,
  CASE WHEN proto IN ('man', 'arp', 'llc') THEN 'not IP' END AS set_aside
FROM (SELECT *, coalesce(seconds_ns(coalesce(stime, starttime)), datetime_ns(coalesce(stime, starttime))) AS start_ns FROM source)
