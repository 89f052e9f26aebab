-- format: jsonl
-- title: Flows in JSON lines (or one JSON list): one flow an object, with the keys of format csv
-- from: this project: src, dst, size_bytes, start_ns and, if there, end_ns, flow_id, service, vnet, src_port, dst_port, protocol, dscp, after, delay_ns
-- rows: flows
-- reads: json
-- column: flow_id = $.flow_id
-- column: src = $.src
-- column: dst = $.dst
-- column: size_bytes = $.size_bytes
-- column: start_ns = $.start_ns
-- column: end_ns = $.end_ns
-- column: protocol = $.protocol
-- column: src_port = $.src_port
-- column: dst_port = $.dst_port
-- column: service = $.service
-- column: vnet = $.vnet
-- column: dscp = $.dscp
-- column: after = $.after
-- column: delay_ns = $.delay_ns

SELECT "row", flow_id, src, dst, size_bytes, start_ns, end_ns, protocol, src_port, dst_port, service, vnet, dscp,
  nullif(trim(after, ' []'), '') AS after, delay_ns
FROM source
