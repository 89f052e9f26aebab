package schema

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
)

// Tables of an estimate.
var (
	Slowdowns = Table{
		Name: "slowdowns", Doc: "The estimate: one row per simulated flow.",
		Grain: "flow", Key: []string{"flow_id"}, Sort: []string{"flow_row"}, Variant: true,
		Columns: slices.Concat(Flows.Select("flow_id"), Hops.Select("flow_row"),
			Flows.Select("src", "dst", "service", "vnet", "size_bytes"), []Column{
				{"start_ns", i64, false, "ns", "start time of the flow; of one that waits for others, when it started"},
				{"hops", i16, false, "", "number of links on the path; where paths move, of the first; 0: a compute step (exact_fcts)"},
				{"ideal_ns", i64, false, "ns", "FCT of the flow alone on this path, with an unlimited window; at most fct_ns"},
				{"fct_ns", i64, false, "ns", "FCT, estimated or simulated"},
				{"window_ns", i64, false, "ns", "part of fct_ns - ideal_ns that is due to a window smaller than the path needs"},
				{"slowdown", f64, false, "", "fct_ns / ideal_ns, at least 1"},
				{"retransmissions", i32, false, "", "packets of the flow that were sent again; 0 where nothing is lost"},
				{"reordered", i32, false, "", "packets that arrived after one that was sent later (RFC 4737)"},
			}),
	}
	LinkStats = Table{
		Name: "link_stats",
		Doc: "Traffic of each link and statistics of its link case or, with estimator exact, of the link in the whole " +
			"network. The statistics are 0 for a link that was not simulated (see link_clusters).",
		Grain: "link", Key: []string{"link_id"}, Sort: []string{"link_id"}, Variant: true,
		Columns: append(Links.Select("link_id", "src_node", "dst_node", "tier", "bandwidth_bps"), []Column{
			{"available_bps", i64, false, "bps", "bandwidth less that of the ACKs that the link carries"},
			{"flows", i64, false, "", "number of flows that cross the link; where paths move, on their first paths"},
			{"bytes", i64, false, "bytes", "their bytes, without headers; where paths move, those sent, with retransmissions"},
			{"packets", i64, false, "", "their packets, ⌈size/payload⌉ each; where paths move, those sent"},
			{"load", f64, false, "", "bytes, without headers, as a fraction of the link's capacity over the duration of the workload"},
			{"packets_sent", i64, false, "", "packets sent in the case"},
			{"packets_marked", i64, false, "", "packets that the link marked (ECN)"},
			{"busy_ns", i64, false, "ns", "time in which the link was sending"},
			{"max_queue_bytes", i64, false, "bytes", "longest queue, the packet being sent included"},
			{"max_queue_at_ns", i64, false, "ns", "first time of the longest queue"},
			{"mean_queue_packets", f64, false, "", "packets waiting, averaged over the time of sending"},
			{"mean_wait_ns", f64, false, "ns", "mean queueing wait of a packet"},
			{"feedback_share", f64, false, "", "estimator flow: mean of wait / round trip + marks, by packet"},
			{"crowded_at_ns", arrow.ListOfNonNullable(f64), false, "ns", "link cases, limited buffers: by slot of 10 µs with a queue that matters, when it was longest; else empty"},
			{"crowded_bytes", arrow.ListOfNonNullable(f64), false, "bytes", "how long it was then: unnest both"},
			{"cached", boo, false, "", "whether the result came from the cache (of a shared file: there)"},
			{"drops", i64, false, "", "estimator exact: packets that the switch dropped before the link; else 0"},
			{"paused_ns", i64, false, "ns", "estimator exact: how long the switch at its end paused the sender (PFC)"},
		}...),
	}
	LinkClasses = Table{
		Name: "link_classes", Doc: "What each traffic class met at each link, with estimator exact and classes; else empty.",
		Grain: "link × class", Key: []string{"link_id", "class"}, Sort: []string{"link_id"}, Variant: true,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"class", str, false, "", "name of the class"},
			{"marks", i64, false, "", "its packets that the switch marked (ECN)"},
			{"drops", i64, false, "", "its packets that the switch dropped before the link"},
			{"paused_ns", i64, false, "ns", "how long the switch at the link's end paused it (PFC)"},
		},
	}
	LinkSlots = Table{
		Name: "link_slots", Doc: "What each link sent over time, with estimator exact and paths that move; else empty.",
		Grain: "link × slot in which it sent", Key: []string{"link_id", "from_ns"}, Sort: []string{"link_id", "from_ns"},
		Variant: true,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"from_ns", i64, false, "ns", "begin of the slot, in the time of flow starts"},
			{"to_ns", i64, false, "ns", "end of the slot; all are as long, at most 128"},
			{"bytes", i64, false, "bytes", "data that it sent, with headers and retransmissions"},
			{"load", f64, false, "", "bytes, with headers, as a fraction of what its bandwidth could send"},
		},
	}
	Intervals = Table{
		Name: "intervals",
		Doc: "95% confidence intervals of the percentiles of slowdown. They have two parts: the variation between " +
			"workloads of the same kind, from a bootstrap over blocks of time, and for estimator flow the method's own " +
			"error, from how far link cases disagree about the same flows. In variants from windows of time they have " +
			"the parts that an answer names. The groups are all flows and each service, by size bin, and " +
			"each virtual network and each service within it; of each kind, the first 64 in the workload.",
		Grain: "group of flows × quantile", Key: []string{"service", "vnet", "size_bin", "quantile"},
		Sort: []string{}, Variant: true,
		Columns: []Column{
			{"service", str, true, "", "service of the flows; null for all"},
			{"vnet", str, true, "", "virtual network of the flows; null for all"},
			{"size_bin", str, false, "", "size bin of the flows, or all"},
			{"quantile", f64, false, "", "0.5, 0.9, 0.99 or 0.999"},
			{"flows", i64, false, "", "number of flows in the group"},
			{"estimate", f64, false, "", "slowdown at the quantile, to within 0.1%"},
			{"lo", f64, false, "", "lower bound of the interval, of both parts"},
			{"hi", f64, false, "", "upper bound of the interval, of both parts"},
			{"warning", str, false, "", "why the workload is too short for this percentile; empty if it is not"},
			{"workload_lo", f64, true, "", "lower bound for other workloads of the same kind; null if lo is that"},
			{"workload_hi", f64, true, "", "upper bound likewise"},
			{"method_error", f64, true, "", "the method's own error, ± relative to the estimate; null if it is not known"},
		},
	}
	Warnings = Table{
		Name:  "warnings",
		Doc:   "Conditions under which the estimate is less accurate, each with the reason and what to do.",
		Grain: "kind × link × warning", Key: []string{"kind", "link_id", "warning"}, Sort: []string{}, Variant: true,
		Columns: []Column{
			{"kind", str, false, "", "overload, flows, long path, transport, window, disagreement, unsettled, spread, buffers, loaded twice"},
			{"measure", f64, true, "", "what is compared with the threshold; null if nothing could be measured"},
			{"threshold", f64, true, "", "measure from which there is a warning"},
			{"link_id", i32, true, "", "link concerned; null if there is no single one"},
			{"warning", str, false, "", "the reason"},
		},
	}
)

// Tables of an estimate from windows of time (run --within). Its variant is that of the windows' estimates, followed by
// "-sampled-<windows>". It has table intervals, too, whose estimates and bounds are those of the whole workload.
var (
	Windows = Table{
		Name: "windows", Doc: "Windows of time that were drawn from the workload and estimated in place of the whole (--within).",
		Grain: "window", Key: []string{"window"}, Sort: []string{"window"}, Variant: true,
		Columns: []Column{
			{"window", i32, false, "", "number of the slot of time that was drawn, from 0 over the whole workload"},
			{"round", i32, false, "", "round of drawing, from 1"},
			{"window_scenario", str, false, "", "hidden scenario in which the window was estimated"},
			{"stratum", i32, false, "", "stratum of the slot, from 0"},
			{"stratum_slots", i32, false, "", "number of slots of the stratum"},
			{"stratum_drawn", i32, false, "", "number of slots drawn from it"},
			{"weight", f64, false, "", "stratum_slots / stratum_drawn: flows of the workload for each of the window"},
			{"from_ns", i64, false, "ns", "beginning of the window"},
			{"to_ns", i64, false, "ns", "end of the window, excluded"},
			{"warmup_ns", i64, false, "ns", "time simulated before the window, and after it"},
			{"flows", i64, false, "", "number of flows that start in the window"},
			{"bytes", i64, false, "bytes", "their bytes"},
		},
	}
	SampledSlowdowns = Table{
		Name: "sampled_slowdowns", Doc: "Estimates of the flows of the windows, with their weights: percentiles are " +
			"weighted ones. ",
		Grain: "flow", Key: []string{"flow_id"}, Sort: []string{}, Variant: true,
		Columns: slices.Concat(Slowdowns.Select("flow_id"), []Column{
			{"window", i32, false, "", "window in which the flow starts"},
			{"weight", f64, false, "", "as in windows"},
		}, Slowdowns.Select("src", "dst", "service", "vnet", "size_bytes", "start_ns", "ideal_ns", "fct_ns", "slowdown")),
	}
)

// Tables of the whole-network simulation and of its comparison with estimates. The variant of exact_fcts and
// exact_hops is "exact", or "exact-<from>-<to>" for a time range of the workload in ns; with finite switch buffers
// followed by "-buffer-<bytes>-alpha-<alpha>" and, if it is set, "-retransmit-<ns>".
var (
	ExactFCTs = Table{
		Name: "exact_fcts", Doc: "FCT of each flow in a packet simulation of the whole network.",
		Grain: "flow", Key: []string{"flow_id"}, Sort: []string{}, Variant: true,
		Columns: Slowdowns.Select("flow_id", "flow_row", "size_bytes", "start_ns", "hops", "ideal_ns", "fct_ns", "window_ns",
			"slowdown", "retransmissions", "reordered"),
	}
	ExactHops = Table{
		Name: "exact_hops", Doc: "Queueing waits and marks of each flow of exact_fcts at each hop.",
		Grain: "flow × hop", Key: []string{"flow_row", "hop"}, Sort: []string{}, Variant: true,
		Columns: append(Hops.Select("flow_row", "hop", "link_id"), []Column{
			{"wait_ns", i64, false, "ns", "sum of the queueing waits of the flow's packets; 0 at hop 0"},
			{"last_wait_ns", i64, false, "ns", "queueing wait of the flow's last packet"},
			{"packets_marked", i32, false, "", "number of the flow's packets that the link marked (ECN)"},
		}...),
	}
	Validations = Table{
		Name: "validations",
		Doc: "Comparison of an estimate with the truth: percentiles of slowdown by flow size. The variant is that " +
			"of the estimate.",
		Grain: "truth × size bin × quantile", Key: []string{"truth", "size_bin", "quantile"},
		Sort: []string{}, Variant: true, Published: true,
		Columns: []Column{
			{"truth", str, false, "", "what the estimate is compared with: a variant of exact_fcts, or a file"},
			{"size_bin", str, false, "", "size bin of the flows, or all"},
			{"flows", i64, false, "", "number of flows with both an estimate and a truth"},
			{"quantile", f64, false, "", "0.5, 0.9, 0.99 or 0.999"},
			{"estimate", f64, false, "", "estimated slowdown at the quantile"},
			{"true_slowdown", f64, false, "", "true slowdown at the quantile, relative to the estimate's ideal FCT"},
			{"error", f64, false, "", "estimate / true_slowdown - 1"},
			{"error_lo", f64, false, "", "lower bound of the error's 95% bootstrap interval"},
			{"error_hi", f64, false, "", "upper bound of the error's 95% bootstrap interval"},
			{"wasserstein", f64, false, "", "Wasserstein-1 distance of the logarithms of the slowdowns in the bin"},
		},
	}
)
