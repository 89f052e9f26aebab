-- The rows of view timed with their hosts, labels and, for rows that cannot be used, the reason. A row may be a
-- compute step, which has no bytes, one host, and a time or the flows that it waits for. These are flow ids, separated
-- by spaces or commas, with or without brackets.
CREATE OR REPLACE TEMP VIEW joined AS
SELECT t.*, s.node AS src_node, d.node AS dst_node, s.class AS src_class, d.class AS dst_class,
  coalesce(s.off_fabric, false) AS src_off, coalesce(d.off_fabric, false) AS dst_off,
  coalesce(t.sampling_rate, CASE WHEN t.sampled THEN 1 END, $rate) AS rate, t.size_bytes::HUGEINT * rate AS whole_bytes,
  coalesce(t.end_ns, t.start_ns) AS last_ns,
  coalesce(t.protocol = 6 AND t.size_bytes BETWEEN 40 * t.packets::HUGEINT
    AND t.packets::HUGEINT * CASE WHEN contains(t.src, ':') THEN $header_bytes + 20 ELSE $header_bytes END, false) AS alone
FROM timed AS t LEFT JOIN addresses AS s ON t.src = s.address LEFT JOIN addresses AS d ON t.dst = d.address;
CREATE OR REPLACE TEMP VIEW labelled AS
SELECT j.*,
  src_node = dst_node AND whole_bytes = 0 AND (after IS NOT NULL OR delay_ns IS NOT NULL) AS computes,
  list_distinct(list_transform(string_split_regex(after, '[ ,]+'), x -> whole(x))) AS waits_for,
  coalesce($service, '') AS service_name,
  coalesce($vnet, '') AS vnet_name
FROM joined AS j
LEFT JOIN class_labels AS dp ON dp.class = j.dst_class AND dp.port = j.dst_port
LEFT JOIN class_labels AS da ON da.class = j.dst_class AND da.port = -1
LEFT JOIN class_labels AS sp ON sp.class = j.src_class AND sp.port = j.src_port
LEFT JOIN class_labels AS sa ON sa.class = j.src_class AND sa.port = -1;
CREATE OR REPLACE TEMP VIEW judged AS
SELECT l.*, $source AS source,
  CASE
    WHEN set_aside IS NOT NULL THEN set_aside
    WHEN fault IS NOT NULL THEN fault
    WHEN has_id AND flow_id IS NULL THEN 'flow_id is not an integer'
    WHEN $any_id AND NOT has_id THEN 'flow_id is missing'
    WHEN $is_log AND size_bytes = 0 THEN '$no_bytes'
    WHEN src IS NULL THEN 'src is missing'
    WHEN dst IS NULL THEN 'dst is missing'
    WHEN size_bytes IS NULL THEN 'size_bytes is not an integer'
    WHEN $is_log AND start_ns < $first_ns THEN '$no_start'
    WHEN $is_log AND no_start AND NOT from_reception AND start_ns = $stuck THEN '$stuck_start'
    WHEN $is_log AND no_start AND NOT from_reception AND start_ns IS NOT NULL THEN 'start_ns is after the time of reception'
    WHEN start_ns IS NULL THEN 'start_ns is not an integer'
    WHEN src_off OR dst_off THEN '$off_fabric'
    WHEN src_node IS NULL THEN '$unknown_src'
    WHEN dst_node IS NULL THEN '$unknown_dst'
    WHEN src_node = dst_node AND NOT computes THEN '$same_host'
    WHEN whole_bytes <= 0 AND NOT computes THEN 'size_bytes is not positive'
    WHEN whole_bytes > $max_bytes THEN 'size_bytes is beyond 2^50'
    WHEN unreadable IS NOT NULL THEN unreadable || ' is not an integer'
    WHEN coalesce(protocol NOT IN (1, 58), true) AND (unreadable_port IS NOT NULL
      OR src_port NOT BETWEEN 0 AND 65535 OR dst_port NOT BETWEEN 0 AND 65535)
      THEN 'a port is not an integer from 0 to 65535'
    WHEN rate < 1 THEN 'sampling_rate is not positive'
    WHEN start_ns < 0 OR start_ns > $max_start_ns THEN 'start_ns is negative or beyond 2^62'
    WHEN last_ns > $max_start_ns THEN 'end_ns is beyond 2^62'
    WHEN last_ns < start_ns THEN 'end_ns is before start_ns'
    WHEN trim(dscp) <> '' AND coalesce(whole(dscp), -1) NOT BETWEEN 0 AND 63 THEN 'dscp is not an integer from 0 to 63'
    WHEN alone THEN '$acks_alone'
    WHEN after IS NOT NULL AND (len(waits_for) = 0 OR list_contains(list_transform(waits_for, x -> x IS NULL), true))
      THEN 'after is not a list of flow ids'
    WHEN delay_ns IS NOT NULL AND coalesce(whole(delay_ns), -1) NOT BETWEEN 0 AND 13 * 86400000000000
      THEN 'delay_ns is not an integer from 0 to 13 days' -- what the whole-network simulation can express
    WHEN start_ns < $lo OR start_ns > $hi THEN '$out_of_time'
    WHEN last_ns > $hi THEN '$end_out_of_time'
    WHEN start_resolution_ns < 0 OR start_resolution_ns > 86400000000000
      THEN 'start_resolution_ns is negative or over a day'
  END AS reason
FROM labelled AS l
