-- format: hpcc
-- title: flow.txt of the HPCC simulator: "src dst pg dport size start_s", or the same with the flow's id in front
-- from: https://github.com/alibaba-edu/High-Precision-Congestion-Control (simulation/mix/flow.txt)
-- rows: flows
-- reads: words
-- count: 1
-- names: w1 w2 w3 w4 w5 w6 w7
-- widths: 6 7

-- The first line is the number of flows; what follows them is commentary. Times are in seconds.
SELECT "row",
  CASE WHEN w7 IS NOT NULL THEN w1 END AS flow_id,
  CASE WHEN w7 IS NOT NULL THEN w2 ELSE w1 END AS src,
  CASE WHEN w7 IS NOT NULL THEN w3 ELSE w2 END AS dst,
  CASE WHEN w7 IS NOT NULL THEN w5 ELSE w4 END AS dst_port,
  CASE WHEN w7 IS NOT NULL THEN w6 ELSE w5 END AS size_bytes,
  seconds_ns(CASE WHEN w7 IS NOT NULL THEN w7 ELSE w6 END) AS start_ns
FROM source
