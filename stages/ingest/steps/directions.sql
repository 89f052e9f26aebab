-- View directions: the canonical columns of the mapping's rows. A record with bytes in both directions becomes two
-- rows, of which the second has the ends exchanged. A direction without bytes has no row if the other one has bytes.
CREATE OR REPLACE TEMP VIEW directions AS
SELECT * EXCLUDE (reverse_bytes, reverse_packets, reverse_start_ns, reverse_given), false AS reverse FROM $mapped
WHERE NOT (reverse_given AND reverse_bytes IS DISTINCT FROM 0 AND coalesce(size_bytes, 0) = 0)
UNION ALL BY NAME
SELECT * EXCLUDE (reverse_bytes, reverse_packets, reverse_start_ns, reverse_given)
  REPLACE (dst AS src, src AS dst, dst_port AS src_port, src_port AS dst_port, reverse_bytes AS size_bytes,
    reverse_packets AS packets, coalesce(reverse_start_ns, start_ns) AS start_ns,
    CASE WHEN reverse_start_ns IS NULL THEN end_ns ELSE greatest(end_ns, reverse_start_ns) END AS end_ns), true AS reverse
FROM $mapped WHERE reverse_given AND reverse_bytes IS DISTINCT FROM 0
