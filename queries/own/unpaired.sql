-- All flows of two estimates, with values of 0 for the other estimate. Rows of the base draw other random numbers.
SELECT
    flow_row + (1::BIGINT << 62) AS flow_row, flow_row AS base_row, NULL::BIGINT AS other_row,
    service, vnet, size_bin_name(size_bytes) AS size_bin,
    CAST(hops AS VARCHAR) AS hops, slowdown AS base, 0::DOUBLE AS other, fct_ns / 1e6 AS base_fct_ms,
    0::DOUBLE AS other_fct_ms, 0::BIGINT AS ideal_changed
FROM base_slowdowns
UNION ALL
SELECT
    flow_row, NULL, flow_row, service, vnet, size_bin_name(size_bytes), CAST(hops AS VARCHAR), 0, slowdown, 0, fct_ns / 1e6, 0
FROM other_slowdowns
