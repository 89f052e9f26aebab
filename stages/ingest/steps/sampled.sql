-- Flows of sampled packets, the bytes that one of them stands for, and at least how many flows have no sampled packet
-- (A. Chao, "Nonparametric estimation of the number of classes in a population", 1984: from those with one and with two).
SELECT count(*), coalesce(sum(size_bytes) / sum(samples), 0)::DOUBLE,
  count(*) FILTER (samples = 1) * (count(*) FILTER (samples = 1) - 1.0) / (2.0 * (count(*) FILTER (samples = 2) + 1))
FROM $flows WHERE samples > 0
