package main

import (
	"context"
	"fmt"
)

// ns3Backend compares link cases in ns-3 with the link kernel on one small scenario: the time, how far the percentiles
// of FCTs differ case by case, and the errors of both estimates against the simulation of the whole network.
func ns3Backend(ctx context.Context, b *bench) {
	program, flows := b.sharedPath("tools", "ns3-hpcc"), 24000
	if b.short {
		flows = 1000
	}
	scenario := b.file("ns3.yaml", fmt.Sprintf(`
topology:
  clos: {pods: 2, racks_per_pod: 2, hosts_per_rack: 2, planes: 2, oversubscription: 1,
         host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
workload:
  max_load: 45%%
  flows_count: %d
  services:
    - {name: all, matrix: uniform, sizes: webserver, sigma: 1}
`, flows))
	lake := b.lake()
	var estimates, differences [][]any
	for _, transport := range b.names([]string{"dctcp"}, []string{"dctcp", "dcqcn", "timely"}) {
		var scenarioID string
		var kernel float64
		for _, backend := range []string{"kernel", "ns3"} {
			how := append(estimator("independent"), "--link-backend", backend)
			source := []string{scenario, "--transport", transport, "--cache", "off"}
			if backend == "ns3" {
				source = append(source, "--ns3", program)
			}
			e := b.run(ctx, lake, append(source, how...)...)
			v := b.validate(ctx, lake, e, how, "exact")
			seconds := e.Cases.KernelNS / 1e9
			if backend == "kernel" {
				kernel = seconds
			}
			scenarioID = e.Scenario
			estimates = append(estimates, []any{transport, backend, si(e.Cases.PacketHops), decimal(seconds),
				decimal(seconds / kernel), v["all"].errors})
		}
		for _, r := range b.caseDifferences(ctx, lake, scenarioID) {
			differences = append(differences, append([]any{transport}, r...))
		}
	}
	b.table("The estimate, against the simulation of the whole network.",
		[]string{"transport", "link cases by", "packet-hops", "core seconds", "of the kernel's", "p50 / p90 / p99 / p99.9"},
		estimates)
	b.table("FCTs of the two, case by case, of cases with at least 1,000 flows: mean and largest difference.",
		[]string{"transport", "links", "cases", "p50", "p90", "p99"}, differences)
}

// caseDifferences compares the percentiles of FCTs of each link case, by the place of the link on the flow's path.
func (b *bench) caseDifferences(ctx context.Context, lake, scenario string) (rows [][]any) {
	for _, r := range query[struct {
		Place      string
		Cases      int64
		Mean, Most []float64
	}](ctx, b, lake, fmt.Sprintf(`
		WITH pairs AS (
			SELECT k.link_id, CASE WHEN k.hop = 0 THEN 'first' WHEN k.hop = k.hops - 1 THEN 'last' ELSE 'middle' END AS place,
				k.fct_ns AS kernel, n.fct_ns AS ns3
			FROM hop_delays k JOIN hop_delays n USING (scenario, link_id, flow_id)
			WHERE k.scenario = '%s' AND k.variant = 'independent' AND n.variant = 'independent-ns3'),
		fcts AS (
			SELECT place, link_id, quantile_cont(kernel, [0.5, 0.9, 0.99]) AS k, quantile_cont(ns3, [0.5, 0.9, 0.99]) AS n
			FROM pairs GROUP BY ALL HAVING count(*) >= 1000),
		differences AS (SELECT place, [abs(k[i] / n[i] - 1) FOR i IN [1, 2, 3]] AS d FROM fcts)
		SELECT place, count(*) AS cases, [avg(d[1]), avg(d[2]), avg(d[3])] AS mean, [max(d[1]), max(d[2]), max(d[3])] AS most
		FROM differences GROUP BY place ORDER BY place`, scenario)) {
		cells := []any{r.Place, r.Cases}
		for i := range r.Mean {
			cells = append(cells, fmt.Sprintf("%.1f%%, %.1f%%", 100*r.Mean[i], 100*r.Most[i]))
		}
		rows = append(rows, cells)
	}
	return rows
}
