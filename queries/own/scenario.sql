-- The description of a scenario, for its report.
SELECT name, base_id, seed, spec, flows, rejects,
    (SELECT count(*) FROM flows AS f WHERE f.scenario = $scenario AND synthetic_start) AS synthetic_flows,
    (SELECT count(*) FROM dependencies AS d WHERE d.scenario = $scenario) AS dependencies
FROM scenarios WHERE scenario = $scenario
