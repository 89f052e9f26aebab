-- The second directions of view directions, with the ends exchanged.
UNION ALL BY NAME
SELECT * EXCLUDE (reverse_bytes, reverse_packets, reverse_start_ns, reverse_given)
  REPLACE (dst AS src, src AS dst, dst_port AS src_port, src_port AS dst_port, reverse_bytes AS size_bytes,
    reverse_packets AS packets, coalesce(reverse_start_ns, start_ns) AS start_ns,
    CASE WHEN reverse_start_ns IS NULL THEN end_ns ELSE greatest(end_ns, reverse_start_ns) END AS end_ns), true AS reverse
FROM $mapped WHERE reverse_given AND reverse_bytes IS DISTINCT FROM 0
