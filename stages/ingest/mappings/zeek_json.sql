-- format: zeek_json
-- title: Zeek's conn.log, JSON lines
-- from: https://docs.zeek.org/en/master/logs/conn.html
-- rows: records
-- reads: json
-- column: ts = $.ts
-- column: orig_h = $."id.orig_h" | $.id.orig_h
-- column: orig_p = $."id.orig_p" | $.id.orig_p
-- column: resp_h = $."id.resp_h" | $.id.resp_h
-- column: resp_p = $."id.resp_p" | $.id.resp_p
-- column: proto = $.proto
-- column: duration = $.duration
-- column: orig_bytes = $.orig_bytes
-- column: resp_bytes = $.resp_bytes

-- As format zeek. Fields that are not set are not in the object; times are seconds or, if Zeek is set so, ISO 8601.
SELECT "row",
  orig_h AS src,
  resp_h AS dst,
  orig_p AS src_port,
  resp_p AS dst_port,
  proto AS protocol,
  coalesce(orig_bytes, '0') AS size_bytes,
  resp_bytes AS reverse_bytes,
  coalesce(seconds_ns(ts), rfc3339_ns(ts)) AS start_ns,
  narrow(wide(coalesce(seconds_ns(ts), rfc3339_ns(ts))) + seconds_ns(duration)) AS end_ns
FROM source
