-- Table rejects: flows whose id an earlier row has.
SELECT $file AS file, "row", false AS reverse, 'flow_id stands in an earlier row' AS reason,
  concat_ws(',', flow_id, src, dst, size_bytes, start_ns, service, vnet) AS raw
FROM $flows AS k SEMI JOIN firsts USING (flow_id) ANTI JOIN firsts USING (flow_id, source, "row")
ORDER BY source, "row"
