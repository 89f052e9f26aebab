-- SQL functions that mappings may use in addition to DuckDB's. They are NULL for other text.

-- A whole number. Programs that keep numbers as floating point write 33970 as 33970.0 or 3.397e4. The first case, that of
-- nearly all numbers, is faster than a regular expression: the number is written as DuckDB writes it.
CREATE TEMP MACRO whole(t) AS CASE
  WHEN CAST(TRY_CAST(t AS BIGINT) AS VARCHAR) = t THEN TRY_CAST(t AS BIGINT)
  WHEN regexp_full_match(trim(t), '[+-]?[0-9]+(\.0*)?') THEN TRY_CAST(split_part(trim(t), '.', 1) AS BIGINT)
  WHEN regexp_full_match(trim(t), '[+-]?[0-9]+(\.[0-9]*)?[eE][+-]?[0-9]{1,2}')
      AND TRY_CAST(trim(t) AS DOUBLE) = floor(TRY_CAST(trim(t) AS DOUBLE)) AND abs(TRY_CAST(trim(t) AS DOUBLE)) < 9007199254740992
    THEN TRY_CAST(TRY_CAST(trim(t) AS DOUBLE) AS BIGINT)
END;

-- A whole number with 128 bits, so that arithmetic with it does not overflow, and a result with 64 bits, NULL if it does not
-- fit. Mappings use them instead of TRY: DuckDB before 2.0 writes outside its memory if an expression in TRY has a CASE or a
-- coalesce, such as whole, and overflows for one of several rows (duckdb/duckdb#25280).
CREATE TEMP MACRO wide(n) AS CAST(n AS HUGEINT);
CREATE TEMP MACRO narrow(n) AS TRY_CAST(n AS BIGINT);

-- Decimal seconds as ns, exact unless they have an exponent.
CREATE TEMP MACRO seconds_ns(t) AS CASE
  WHEN regexp_full_match(trim(t), '[0-9]{1,18}(\.[0-9]*)?')
    THEN TRY_CAST(TRY_CAST(trim(t) AS DECIMAL(38,9)) * CAST(1000000000 AS BIGINT) AS BIGINT)
  WHEN regexp_full_match(trim(t), '[0-9]+(\.[0-9]*)?[eE][+-]?[0-9]{1,2}')
    THEN TRY_CAST(round(TRY_CAST(trim(t) AS DOUBLE) * 1e9) AS BIGINT)
END;

-- A timestamp with a UTC offset, in the form of RFC 3339. It may come from strftime (+0100), from Java
-- (+0100[Europe/Paris]), from Go (2026-01-31 09:00:00.5 +0100 CET m=+0.1) or from Python (a comma for the point).
CREATE TEMP MACRO rfc3339(t) AS replace(replace(regexp_replace(regexp_replace(regexp_replace(trim(t),
  '^([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?) ?(?:Z|z|UTC|GMT|([+-][0-9]{2}):?([0-9]{2})?)( [A-Z]{1,5}| [+-][0-9]{2,4}|\[[A-Za-z0-9_/+-]+\]| m=[+-][0-9.]+)*$',
  '\1T\2|\3:\4'), '\|:$', 'Z'), ':$', ':00'), '|', ''), ',', '.');

-- A timestamp in the form of RFC 3339 as ns since 1970. TIMESTAMPTZ holds µs; the digits beyond are added.
CREATE TEMP MACRO strict_rfc3339_ns(t) AS CASE
  WHEN regexp_full_match(t,
      '[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})')
    THEN narrow(wide(epoch_us(TRY_CAST(regexp_replace(upper(t), '(\.[0-9]{6})[0-9]+', '\1') AS TIMESTAMPTZ))) * 1000
      + coalesce(TRY_CAST(rpad(regexp_extract(t, '\.[0-9]{6}([0-9]{1,3})', 1), 3, '0') AS BIGINT), 0))
END;

-- A timestamp with a UTC offset as ns since 1970. Texts without a date, such as numbers, are excluded first: the
-- regular expressions take most of the time.
CREATE TEMP MACRO rfc3339_ns(t) AS CASE
  WHEN trim(t) LIKE '____-__-__%' THEN coalesce(strict_rfc3339_ns(trim(t)), strict_rfc3339_ns(rfc3339(t)))
END;

-- A date and a time as ns since 1970, in UTC unless it has an offset, such as 2026-01-31 09:00:00.123.
CREATE TEMP MACRO datetime_ns(t) AS CASE
  WHEN trim(t) LIKE '____-__-__%'
    THEN coalesce(strict_rfc3339_ns(trim(t) || 'Z'), rfc3339_ns(t), rfc3339_ns(trim(t) || 'Z'))
END;

-- An end in ns, from its text. If it is NULL, and the text is a number or a date that is too large, it is the largest
-- number, with which rows are rejected. A date before 1678, such as the year 1 of an unset time, is not an end.
CREATE TEMP MACRO or_beyond(ns, t) AS coalesce(ns, CASE
  WHEN regexp_full_match(trim(t), '[+-]?[0-9]{10,}(\.[0-9]*)?') THEN 9223372036854775807
  WHEN regexp_full_match(trim(t), '(22[6-9]|2[3-9][0-9]|[3-9][0-9]{2})[0-9]-[0-9]{2}-[0-9]{2}[Tt ].*')
    THEN 9223372036854775807
END);

-- The resolution in ns of a timestamp with a number of digits in its fraction, or 0 for more than 6.
CREATE TEMP MACRO rfc3339_resolution_ns(t) AS CAST(
  CASE length(regexp_extract(t, '[.,]([0-9]+)', 1))
    WHEN 0 THEN 1000000000 WHEN 1 THEN 100000000 WHEN 2 THEN 10000000 WHEN 3 THEN 1000000
    WHEN 4 THEN 100000 WHEN 5 THEN 10000 WHEN 6 THEN 1000 ELSE 0
  END AS BIGINT);
