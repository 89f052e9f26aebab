-- The numbers of rows of view truth that have nulls, an impossible FCT or a repeated flow, and the first such flow.
WITH checked AS (
    SELECT flow_id, fct_ns, fct_ns > 0 AND CAST(fct_ns AS DOUBLE) < CAST('inf' AS DOUBLE) AS good FROM truth
), repeated AS (
    SELECT flow_id FROM checked GROUP BY flow_id HAVING count(*) > 1
)
SELECT
    count(*) FILTER (flow_id IS NULL OR fct_ns IS NULL),
    count(*) FILTER (NOT good), CAST(min(flow_id) FILTER (NOT good) AS VARCHAR),
    (SELECT count(*) FROM repeated), (SELECT CAST(min(flow_id) AS VARCHAR) FROM repeated)
FROM checked
