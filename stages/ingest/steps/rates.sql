-- Of the records of TCP with data whose rows do not say a sampling rate, those of one packet, and all. Of all records, those
-- that do not take the rate of the options, and all.
SELECT
  count(*) FILTER (packets = 1 AND protocol = 6 AND unstated),
  count(*) FILTER (packets > 0 AND protocol = 6 AND unstated),
  count(*) FILTER (NOT unstated),
  count(*)
FROM (SELECT *, sampling_rate IS NULL AND sampled IS NOT TRUE AS unstated FROM judged WHERE reason IS NULL)
