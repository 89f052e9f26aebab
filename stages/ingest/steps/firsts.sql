-- The first rows of ids that several rows have.
CREATE OR REPLACE TEMP TABLE firsts AS
SELECT flow_id, arg_min(source, (source, "row")) AS source, arg_min("row", (source, "row")) AS "row"
FROM $flows GROUP BY flow_id HAVING count(*) > 1
