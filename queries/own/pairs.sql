-- The flows that are in both of two estimates, which have the columns $same in common.
SELECT
    b.flow_row, b.flow_row AS base_row, o.flow_row AS other_row, b.service, b.vnet, size_bin_name(size_bytes) AS size_bin,
    CAST(b.hops AS VARCHAR) AS hops, b.slowdown AS base, o.slowdown AS other, b.fct_ns / 1e6 AS base_fct_ms,
    o.fct_ns / 1e6 AS other_fct_ms, CAST(b.ideal_ns <> o.ideal_ns AS BIGINT) AS ideal_changed
FROM base_slowdowns AS b
JOIN other_slowdowns AS o USING ($same)
