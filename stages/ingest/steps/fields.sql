-- The columns of staged lines of fields.
SELECT "row", $columns, replace(line, chr(31), $between) AS raw, broken
FROM (SELECT *, string_split(line, chr(31)) AS fields FROM $staged)
