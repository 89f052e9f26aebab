-- Table records: the judged rows without a reason. An exporter that counts every packet is one observer per
-- interface. An exporter that samples packets is one observer, because a packet is sampled at one of its
-- interfaces, such as a member of a link aggregation group. If rows do not name the exporter, only interfaces
-- distinguish exporters.
SELECT
  CAST(source AS INTEGER) AS source, "row", reverse, flow_id, src_node AS src, dst_node AS dst, protocol, src_port, dst_port,
  concat_ws(' ', observer,
    CASE WHEN trim(observer) <> '' AND (rate > 1 OR sampled) THEN NULL ELSE interface END) AS observer,
  CAST(whole_bytes AS BIGINT) AS size_bytes,
  start_ns + CASE WHEN after IS NULL THEN coalesce(whole(delay_ns), 0) ELSE 0 END AS start_ns, last_ns AS end_ns,
  coalesce(start_resolution_ns, 0) AS resolution_ns,
  CASE WHEN rate > 1 THEN greatest(coalesce(packets, 1), 1) WHEN sampled THEN NULL ELSE 0 END AS samples,
  CASE WHEN packets > 0 AND packets::HUGEINT * rate <= whole_bytes THEN CAST(packets * rate AS BIGINT) END AS packets,
  service_name AS service, vnet_name AS vnet, CAST(whole(dscp) AS SMALLINT) AS dscp
FROM judged WHERE reason IS NULL
