-- Rejects by reason, most frequent first. The example does not depend on the files that contain the rejects.
SELECT reason, count(*), 'row ' || min("row") || ': ' || arg_min(raw, ("row", file, raw))
FROM $rejects GROUP BY reason ORDER BY 2 DESC, 1
