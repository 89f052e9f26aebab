-- The columns of staged JSON objects. All paths are read in one pass.
SELECT "row", $columns, raw, broken FROM (
  SELECT "row", line AS raw, broken, CASE WHEN broken = '' THEN json_extract_string(line, [$paths]) END AS found FROM (
    SELECT "row", line, CASE
      WHEN broken <> '' THEN broken
      WHEN NOT json_valid(line) THEN 'broken line: not JSON'
      WHEN json_type(line) <> 'OBJECT' THEN 'broken line: not a JSON object'
      WHEN len(json_keys(line)) > len(list_distinct(json_keys(line))) THEN 'broken line: a key stands there twice'
      ELSE ''
    END AS broken
    FROM $staged))
