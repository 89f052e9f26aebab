-- question: What is the cumulative distribution of slowdown by flow size, beside that of a simulation of the whole network?
-- grain: one row per scenario, variant, source (the estimate or the variant of the truth), service, virtual network, size bin and step of the curve
-- units: slowdown is FCT / ideal FCT; shares are fractions of the group's flows; service or vnet is null for the flows of all
-- param: scenario text = '' : scenario id; empty means all scenarios of the lake, with separate rows for each
-- param: variant text = '' : variant of the estimate; empty means the variant of each scenario's last run
-- param: groups count = 12 : number of services, of virtual networks and of pairs of both that have curves; those with the most flows are chosen
-- param: steps count = 50 : steps of a curve for each factor of 10 in slowdown
-- param: min_flows count = 100 : smallest group that has a curve

-- Flows are counted in cells of slowdown that are equally wide on a logarithmic axis, so that memory does not grow with the
-- number of flows. A row has the upper end of a cell, at which the shares are exact. The slowdowns of the truth are
-- relative to the estimate's ideal FCT, as in table validations.
WITH counted AS (
    SELECT
        scenario, variant, 'estimate' AS source, service, vnet, size_bin_of(size_bytes) AS bin,
        CAST(ceil(log10(greatest(slowdown, 1)) * $steps) AS INTEGER) AS cell, count(*) AS n
    FROM slowdowns
    WHERE ($scenario = '' OR scenario = $scenario)
      AND ($variant = '' OR variant = $variant)
    GROUP BY ALL
    UNION ALL
    SELECT
        s.scenario, s.variant, t.variant AS source, s.service, s.vnet, size_bin_of(s.size_bytes) AS bin,
        CAST(ceil(log10(greatest(t.fct_ns / s.ideal_ns, 1)) * $steps) AS INTEGER) AS cell, count(*) AS n
    FROM slowdowns AS s
    JOIN exact_fcts AS t ON t.scenario = s.scenario AND t.flow_row = s.flow_row AND t.variant <> s.variant
    WHERE ($scenario = '' OR (s.scenario = $scenario AND t.scenario = $scenario))
      AND ($variant = '' OR s.variant = $variant)
    GROUP BY ALL
), rolled AS (
    SELECT scenario, variant, source, service, vnet, bin, cell, CAST(sum(n) AS BIGINT) AS n
    FROM counted
    GROUP BY scenario, variant, source, cell, CUBE (service, vnet, bin)
), summed AS (
    SELECT
        *,
        CAST(sum(n) OVER (own ORDER BY cell) AS BIGINT) AS upto, CAST(sum(n) OVER own AS BIGINT) AS flows
    FROM rolled
    WINDOW own AS (PARTITION BY scenario, variant, source, service, vnet, bin)
), placed AS (
    -- The rank of a group is by its flows of all sizes.
    SELECT
        *,
        dense_rank() OVER (PARTITION BY scenario, variant, source, service IS NULL, vnet IS NULL ORDER BY whole_flows DESC, service, vnet) AS place
    FROM (SELECT *, max(flows) OVER (PARTITION BY scenario, variant, source, service, vnet) AS whole_flows FROM summed)
)
SELECT
    p.scenario, p.variant, p.source, p.service, p.vnet, coalesce(b.size_bin, 'all') AS size_bin, p.flows,
    10 ** (p.cell / CAST($steps AS DOUBLE)) AS slowdown, p.upto / CAST(p.flows AS DOUBLE) AS share, 1 - p.upto / CAST(p.flows AS DOUBLE) AS slower_share
FROM placed AS p
LEFT JOIN size_bins AS b ON b.bin = p.bin
WHERE p.place <= $groups AND p.flows >= $min_flows
ORDER BY p.scenario, p.variant, p.source, p.service NULLS FIRST, p.vnet NULLS FIRST, p.bin NULLS FIRST, p.cell
