-- The flows of a file, by place, with the flows that they wait for. after_row is NULL if there is no such flow.
CREATE OR REPLACE TEMP VIEW waits AS
WITH f AS (SELECT flow_id, file_row_number AS flow_row FROM read_parquet($flows, hive_partitioning=false, file_row_number=true))
SELECT a.flow_row, w.flow_id, b.flow_row AS after_row, w.after_flow_id, w.delay_ns
FROM $waits AS w LEFT JOIN f AS a ON w.flow_id = a.flow_id LEFT JOIN f AS b ON w.after_flow_id = b.flow_id
WHERE a.flow_row IS NOT NULL
