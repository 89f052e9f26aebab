-- Rejects by reason, most frequent first. The example is the same in whatever files the rejects are.
SELECT reason, count(*), 'row ' || min("row") || ': ' || arg_min(raw, ("row", file, raw))
FROM $rejects GROUP BY reason ORDER BY 2 DESC, 1
