-- format: parquet
-- title: Flows in Parquet (or CSV with a header line): one flow a row
-- from: this project: src, dst, size_bytes, start_ns and, if there, end_ns, flow_id, service, vnet, src_port, dst_port, protocol, dscp, after, delay_ns
-- rows: flows
-- reads: csv
-- numbers: 1
-- column: flow_id
-- column: src
-- column: dst
-- column: size_bytes
-- column: start_ns
-- column: end_ns
-- column: protocol
-- column: src_port
-- column: dst_port
-- column: service
-- column: vnet
-- column: dscp
-- column: after
-- column: delay_ns
-- needs: src dst size_bytes start_ns

SELECT "row", flow_id, src, dst, size_bytes, start_ns, end_ns, protocol, src_port, dst_port, service, vnet, dscp,
  nullif(trim(CAST(after AS VARCHAR), ' []'), '') AS after, delay_ns
FROM source
