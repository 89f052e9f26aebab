-- Records of packets that were sampled at an unknown rate count only at one observer for each pair of hosts, the one
-- with the most bytes. Each observer has estimated the bytes of a flow separately, and the larger estimate would be
-- too large.
CREATE OR REPLACE TEMP TABLE samplers AS
SELECT src, dst, arg_max(observer, (size_bytes, observer)) AS sampler
FROM (SELECT src, dst, observer, sum(size_bytes) AS size_bytes FROM $records WHERE samples IS NULL GROUP BY ALL)
GROUP BY ALL
