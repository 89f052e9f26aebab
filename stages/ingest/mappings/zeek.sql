-- format: zeek
-- title: Zeek's conn.log, tab-separated text
-- from: https://docs.zeek.org/en/master/logs/conn.html
-- rows: records
-- reads: csv
-- header: #fields
-- null: - (empty)
-- column: ts
-- column: id.orig_h
-- column: id.orig_p
-- column: id.resp_h
-- column: id.resp_p
-- column: proto
-- column: duration
-- column: orig_bytes
-- column: resp_bytes
-- needs: ts id.orig_h id.resp_h orig_bytes|resp_bytes

-- One row is a connection, with the bytes of its payload in both directions: headers are not among them, and a direction
-- without payload is no flow. The reply is taken to start with the request, for the log does not say when it did.
SELECT "row",
  "id.orig_h" AS src,
  "id.resp_h" AS dst,
  "id.orig_p" AS src_port,
  "id.resp_p" AS dst_port,
  proto AS protocol,
  coalesce(orig_bytes, '0') AS size_bytes,
  resp_bytes AS reverse_bytes,
  coalesce(seconds_ns(ts), rfc3339_ns(ts)) AS start_ns,
  narrow(wide(coalesce(seconds_ns(ts), rfc3339_ns(ts))) + seconds_ns(duration)) AS end_ns
FROM source
