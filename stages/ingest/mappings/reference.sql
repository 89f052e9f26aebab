-- format: reference
-- title: The JSON of the paper's public simulator: one list of id, src, dst, size and start
-- from: the flow lists that the reference implementation of Parsimon reads (start in ns)
-- rows: flows
-- reads: json
-- column: id = $.id
-- column: src = $.src
-- column: dst = $.dst
-- column: size = $.size
-- column: start = $.start

SELECT "row", id AS flow_id, src, dst, size AS size_bytes, start AS start_ns
FROM source
