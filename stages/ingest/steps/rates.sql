-- For the records of TCP with data whose rows do not state a sampling rate: the number of those with one packet, and
-- of all. For all records: the number of those to which the rate of the options does not apply, and of all.
SELECT
  count(*) FILTER (packets = 1 AND protocol = 6 AND unstated),
  count(*) FILTER (packets > 0 AND protocol = 6 AND unstated),
  count(*) FILTER (NOT unstated),
  count(*)
FROM (SELECT *, sampling_rate IS NULL AND sampled IS NOT TRUE AS unstated FROM judged WHERE reason IS NULL)
