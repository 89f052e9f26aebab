-- View directions: the canonical columns of the mapping's rows. A record with bytes in both directions becomes two
-- rows, of which reversed.sql has the second one. A direction without bytes has no row if the other one has bytes.
CREATE OR REPLACE TEMP VIEW directions AS
SELECT * EXCLUDE (reverse_bytes, reverse_packets, reverse_start_ns, reverse_given), false AS reverse FROM $mapped
WHERE NOT (reverse_given AND reverse_bytes IS DISTINCT FROM 0 AND coalesce(size_bytes, 0) = 0)
$reversed
