-- question: Which share of the flows is slower than each slowdown, by flow size, as estimated from windows of time (run --within)?
-- grain: one row per scenario, variant, service, virtual network, size bin and step of the curve
-- units: slowdown is FCT / ideal FCT, no unit; shares are estimated fractions of the group's flows in the whole workload: a flow of a window counts with the window's weight; sampled_flows are those of the group in windows; service, vnet null: flows of all
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means that of the last run of each scenario
-- param: groups count = 12 : services and virtual networks, those with the most flows, that have curves of their own
-- param: steps count = 50 : steps of a curve for each factor of 10 in slowdown
-- param: min_flows count = 100 : leave out groups with fewer flows in windows

-- Flows are counted in cells of slowdown, as in slowdown_cdf. Sums of weights are decimal, so that they do not depend on
-- the order of the rows.
WITH counted AS (
    SELECT
        scenario, variant, service, vnet, size_bin_of(size_bytes) AS bin,
        CAST(ceil(log10(greatest(slowdown, 1)) * $steps) AS INTEGER) AS cell, count(*) AS n,
        sum(CAST(weight AS DECIMAL(18, 6))) AS w
    FROM sampled_slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
      AND weight > 0
    GROUP BY ALL
), rolled AS (
    SELECT scenario, variant, service, vnet, bin, cell, CAST(sum(n) AS BIGINT) AS n, sum(w) AS w
    FROM counted
    GROUP BY scenario, variant, cell, CUBE (service, vnet, bin)
), summed AS (
    SELECT
        *,
        CAST(sum(w) OVER (own ORDER BY cell) AS DOUBLE) / CAST(sum(w) OVER own AS DOUBLE) AS share,
        CAST(sum(n) OVER own AS BIGINT) AS flows
    FROM rolled
    WINDOW own AS (PARTITION BY scenario, variant, service, vnet, bin)
), placed AS (
    -- A group is placed by its flows of all sizes.
    SELECT
        *,
        dense_rank() OVER (PARTITION BY scenario, variant, service IS NULL, vnet IS NULL ORDER BY whole_flows DESC, service, vnet) AS place
    FROM (SELECT *, max(flows) OVER (PARTITION BY scenario, variant, service, vnet) AS whole_flows FROM summed)
)
SELECT
    p.scenario, p.variant, p.service, p.vnet, coalesce(b.size_bin, 'all') AS size_bin, p.flows AS sampled_flows,
    10 ** (p.cell / CAST($steps AS DOUBLE)) AS slowdown, p.share, 1 - p.share AS slower_share
FROM placed AS p
LEFT JOIN size_bins AS b ON b.bin = p.bin
WHERE p.place <= $groups AND p.flows >= $min_flows
ORDER BY p.scenario, p.variant, p.service NULLS FIRST, p.vnet NULLS FIRST, p.bin NULLS FIRST, p.cell
