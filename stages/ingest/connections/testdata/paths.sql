-- The number k of exporters on the paths between two racks, each of which samples a flow independently. It is not
-- known whether one exporter saw a packet that another sampled, and an exporter may by chance have sampled no packet
-- of a flow. However, if k exporters are on the path of a connection, one in k pairs of its samples belongs to one
-- exporter, regardless of its size and of the rate. Therefore, y (squares - n) / (y * y - n) of the bytes y of
-- connections with two or more samples count once. squares are those of the bytes of each exporter, and n are the
-- pairs of a sample with itself. k is the ratio of y to these bytes. A pair of racks with few samples is drawn towards
-- all pairs with cables of the same tiers, and these towards all pairs. prior is the number of bytes of $prior_samples
-- samples. Traffic may move from one exporter to another, so only samples of one interval are compared.
CREATE OR REPLACE TEMP TABLE paths AS
WITH seen AS (
  SELECT $connection, start_ns // $interval_ns AS step, least(sum(size_bytes::HUGEINT), $too_many) AS y,
    sum(size_bytes::HUGEINT * size_bytes // samples) AS n
  FROM $records WHERE samples > 0 GROUP BY $connection, observer, step
), connections AS (
  SELECT src, dst, count(*) AS exporters, sum(y) AS y, sum(least(n, y * y)) AS n, sum(y * y) AS squares
  FROM seen GROUP BY $connection, step
), pairs AS (
  SELECT s.rack AS src_rack, d.rack AS dst_rack, min(concat_ws(' ', s.tier, d.tier, s.rack = d.rack)) AS alike,
    max(exporters) AS exporters, sum(y) AS y, sum(n) AS n,
    sum(CASE WHEN y * y > n THEN y ELSE 0 END) AS bytes, sum(round($once)::HUGEINT) AS once
  FROM connections JOIN places AS s ON src = s.node JOIN places AS d ON dst = d.node GROUP BY ALL
), sums AS (
  SELECT *, max(exporters) OVER () AS most, $prior_samples * sum(n) OVER () / sum(y) OVER () AS prior,
    greatest(1, sum(bytes) OVER ()) / greatest(1, sum(once) OVER ()) AS of_all,
    sum(bytes) OVER kind AS kind_bytes, sum(once) OVER kind AS kind_once
  FROM pairs WINDOW kind AS (PARTITION BY alike)
), kinds AS (
  SELECT *, (kind_bytes + prior) / (kind_once + prior / least(most, of_all)) AS of_kind FROM sums
)
SELECT src_rack, dst_rack, prior, least(most, (bytes + prior) / (once + prior / of_kind)) AS k FROM kinds
