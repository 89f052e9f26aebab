-- The number of flows that wait for themselves or for a flow that the file does not have, and an example.
SELECT count(*), coalesce(arg_min('flow ' || flow_id || ' waits for ' ||
  CASE WHEN after_flow_id = flow_id THEN 'itself' ELSE 'flow ' || after_flow_id ||
  ', which is not in the file or was rejected' END,
  flow_id), '')
FROM waits WHERE after_row IS NULL OR after_flow_id = flow_id
