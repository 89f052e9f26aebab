package schema

// Tables of comparisons of two estimates. Scenario and variant are those of the second estimate. The columns
// base_scenario and base_variant name the first.
var (
	Comparisons = Table{
		Name: "comparisons",
		Doc: "Percentiles of slowdown and FCT in two scenarios, over the flows that are in both, or over all if " +
			"there are none.",
		Grain: "base × group of flows × quantile",
		Key:   []string{"base_scenario", "base_variant", "service", "vnet", "size_bin", "hops", "quantile"},
		Sort:  []string{}, Variant: true, Published: true,
		Columns: []Column{
			{"base_scenario", str, false, "", "scenario of the base"},
			{"base_variant", str, false, "", "variant of the base"},
			{"service", str, false, "", "service of the flows, or all"},
			{"vnet", str, false, "", "virtual network of the flows, or all"},
			{"size_bin", str, false, "", "size bin of the flows, or all"},
			{"hops", str, false, "", "number of links on the flows' paths in the base, or all"},
			{"flows", i64, false, "",
				"number of flows of the group that are in both scenarios, or in the second if there are none"},
			{"quantile", f64, false, "", "0.5, 0.9, 0.99 or 0.999"},
			{"base_slowdown", f64, false, "", "slowdown at the quantile in the base"},
			{"slowdown", f64, false, "", "slowdown at the quantile in the second scenario"},
			{"change", f64, false, "", "slowdown / base_slowdown - 1"},
			{"change_lo", f64, false, "",
				"lower bound of the change's 95% bootstrap interval, over pairs of flows if they are in both"},
			{"change_hi", f64, false, "", "upper bound of the change's 95% bootstrap interval"},
			{"base_fct_ns", f64, false, "ns", "FCT at the quantile in the base"},
			{"fct_ns", f64, false, "ns", "FCT at the quantile in the second scenario"},
			{"fct_change", f64, false, "", "fct_ns / base_fct_ns - 1"},
			{"fct_change_lo", f64, false, "", "lower bound of fct_change's 95% bootstrap interval"},
			{"fct_change_hi", f64, false, "", "upper bound of fct_change's 95% bootstrap interval"},
		},
	}
	ComparisonLinks = Table{
		Name:  "comparison_links",
		Doc:   "Links at which the slowest flows are delayed more, or less, in one of two scenarios.",
		Grain: "base × link", Key: []string{"base_scenario", "base_variant", "place"},
		Sort: []string{}, Variant: true, Published: true,
		Columns: []Column{
			{"base_scenario", str, false, "", "scenario of the base"},
			{"base_variant", str, false, "", "variant of the base"},
			{"place", i64, false, "", "rank of the link by the size of the difference, from 1"},
			{"base_link_id", i32, true, "", "link in the base; null if the base has no link between these two nodes"},
			{"link_id", i32, true, "", "link in the second scenario; null if it has no link between these two nodes"},
			{"link", str, false, "",
				"names of the nodes at its ends, a → b, and for a member of a LAG its port or number"},
			{"tier", str, false, "", "tier of the link"},
			{"tail_flows", i64, false, "",
				"flows above the p99 of either scenario (the tail), the same for all links"},
			{"base_load", f64, false, "", "load of the link in the base"},
			{"load", f64, false, "", "load of the link in the second scenario"},
			{"base_delay_ns", f64, false, "ns", "mean delay of the tail at the link in the base"},
			{"delay_ns", f64, false, "ns", "mean delay of the tail at the link in the second scenario"},
		},
	}
)

// Sweeps has the results of a sweep over cable failures. Its scenario is the base, its variant that of the
// complete estimates.
var Sweeps = Table{
	Name: "sweeps", Doc: "Slowdown with each cable of a tier failed.",
	Grain: "cable × service", Key: []string{"tier", "node_a", "node_b", "service"},
	Sort: []string{}, Variant: true, Published: true,
	Columns: []Column{
		{"tier", str, false, "",
			"tier of the sweep, or several tiers, followed by the value of --loss if it is given"},
		{"node_a", i32, false, "", "node of the failed cable with the lower id"},
		{"node_b", i32, false, "", "the other node of the cable"},
		{"service", str, false, "", "service of the flows, or all"},
		{"flows", i64, false, "", "number of flows of the service that have a path"},
		{"unreachable", i64, false, "", "number of flows of all services without a path"},
		{"estimated", str, false, "", "variant of the estimate"},
		{"p50_slowdown", f64, false, "", "median slowdown with the cable down"},
		{"p90_slowdown", f64, false, "", "p90 of slowdown"},
		{"p99_slowdown", f64, false, "", "p99 of slowdown"},
		{"p999_slowdown", f64, false, "", "p99.9 of slowdown"},
		{"p50_change", f64, false, "", "p50_slowdown divided by that of the base, - 1"},
		{"p90_change", f64, false, "", "p90_slowdown divided by that of the base, - 1"},
		{"p99_change", f64, false, "", "p99_slowdown divided by that of the base, - 1"},
		{"p999_change", f64, false, "", "p999_slowdown divided by that of the base, - 1"},
		{"p50_fct_ns", f64, false, "ns", "median FCT"},
		{"p99_fct_ns", f64, false, "ns", "p99 of the FCT"},
		{"simulated_cases", i64, false, "", "number of link cases simulated for the cable"},
		{"cached_cases", i64, false, "", "number of link cases found in the cache"},
	},
}

// SweepRuns is the answer of a sweep of parameters. Its rows belong to the scenario and variant of each run.
var SweepRuns = Table{
	Name: "sweep_runs", Doc: "Runs of a sweep of parameters (parsimon sweep --set): one row per run and " +
		"parameter.",
	Grain: "sweep × run × parameter", Key: []string{"sweep", "parameter"}, Sort: []string{}, Variant: true,
	Published: true,
	Columns: []Column{
		{"sweep", str, false, "", "name of the sweep: the scenario file and the parameters"},
		{"settings", str, false, "", "all settings of the run, in the order of the parameters"},
		{"parameter", str, false, "", "key of the scenario file, or fail for a failed cable"},
		{"value", str, false, "", "value of the parameter in the run"},
		{"value_number", f64, true, "",
			"number at the start of the value, percentages as a fraction; null if there is none"},
		{"flows", i64, false, "", "number of flows that have an estimate"},
		{"p50_slowdown", f64, true, "", "median slowdown of all flows"},
		{"p50_exact", f64, true, "", "the same in a whole-network simulation; null without --exact"},
		{"p90_slowdown", f64, true, "", "p90 of slowdown"},
		{"p90_exact", f64, true, "", "the same in a whole-network simulation"},
		{"p99_slowdown", f64, true, "", "p99 of slowdown"},
		{"p99_exact", f64, true, "", "the same in a whole-network simulation"},
		{"p999_slowdown", f64, true, "", "p99.9 of slowdown"},
		{"p999_exact", f64, true, "", "the same in a whole-network simulation"},
		{"p50_fct_ns", f64, true, "ns", "median FCT of all flows"},
		{"p99_fct_ns", f64, true, "ns", "p99 of the FCT"},
		{"seconds", f64, false, "s", "duration of the run when it was last computed"},
	},
}
