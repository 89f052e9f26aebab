-- The quantiles of the flows of a question. What Ask fills in stands in braces.
CREATE TEMP TABLE paths AS FROM (VALUES {paths}) AS p(path, flows, begin, ideal_ns, links);

CREATE TEMP TABLE draws AS SELECT * EXCLUDE (flows, begin),
  floor((draw + begin) * (SELECT count(*) FROM {slowdowns}) / flows)::BIGINT AS place
FROM (SELECT *, unnest(range(flows)) AS draw FROM paths);

CREATE TEMP TABLE crossing AS SELECT link_id, flow_row, delay_ns, wait_ns FROM {hop_contributions}
WHERE link_id IN (SELECT unnest(links) FROM paths);

-- Donors are of about the size, and serve until the next one of their link starts; the first one also before its start.
CREATE TEMP TABLE donors AS
SELECT link_id, CASE WHEN start_ns > min(start_ns) OVER (PARTITION BY link_id) THEN start_ns ELSE 0 END AS since_ns,
  round(wait_ns + (delay_ns - wait_ns) * {packets} / ceil(size_bytes / {payload}))::BIGINT AS delay_ns
FROM (
  SELECT * FROM crossing JOIN {slowdowns} USING (flow_row)
  QUALIFY abs(ln(size_bytes / {size})) <= ln(2) / 2
    OR row_number() OVER (PARTITION BY link_id ORDER BY abs(ln(size_bytes / {size})), flow_row) <= 100
)
QUALIFY row_number() OVER (PARTITION BY link_id, start_ns ORDER BY flow_row DESC) = 1;

-- Moments are the starts of flows of the workload, at equal distances in their order.
WITH moments AS (
  SELECT draws.*, start_ns, unnest(links) AS link_id
  FROM draws JOIN (SELECT row_number() OVER () - 1 AS place, start_ns FROM {slowdowns}) USING (place)
), delayed AS (
  SELECT ideal_ns, ideal_ns + coalesce(sum(delay_ns), 0)::BIGINT AS fct_ns, fct_ns / ideal_ns AS slowdown
  FROM moments AS m ASOF LEFT JOIN donors AS d ON m.link_id = d.link_id AND m.start_ns >= d.since_ns
  GROUP BY path, draw, ideal_ns
)
SELECT slowdown, fct_ns, ideal_ns
FROM (SELECT *, row_number() OVER (ORDER BY slowdown, fct_ns) AS rank FROM delayed)
JOIN (SELECT unnest([{ranks}]) AS rank) USING (rank) ORDER BY rank
