-- The columns of staged lines of fields.
SELECT "row", $columns, replace(line, chr(31), '$between') AS raw,
  CASE
    WHEN broken <> '' THEN broken
    WHEN len(fields) NOT IN ($counts) THEN 'broken line: not $want fields'
    ELSE ''
  END AS broken
FROM (SELECT *, string_split(line, chr(31)) AS fields FROM $staged)
