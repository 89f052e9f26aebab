-- The record with the most bytes.
SELECT format('flow file {}: row {} has {} bytes', $file, "row", size_bytes)
FROM $records ORDER BY size_bytes DESC, source, "row" LIMIT 1
