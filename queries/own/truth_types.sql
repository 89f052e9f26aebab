-- The error of the types of the columns of view truth, or null.
SELECT min('column ' || column_name || ' is of type ' || column_type || ', want numbers')
FROM (DESCRIBE SELECT flow_id, fct_ns FROM truth)
WHERE NOT regexp_matches(column_type, '^U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$')
    AND NOT (column_name = 'fct_ns' AND regexp_matches(column_type, '^(FLOAT|DOUBLE|DECIMAL)'))
