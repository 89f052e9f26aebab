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
				{"start_ns", i64, false, "ns",
					"start time of the flow; for a flow that waits for others, when it really started"},
				{"hops", i16, false, "",
					"number of links on the path, or on the first path if it changes; 0 for a compute step (exact_fcts)"},
				{"ideal_ns", i64, false, "ns",
					"FCT of the flow alone on this path, with an unlimited window; at most fct_ns"},
				{"fct_ns", i64, false, "ns", "FCT, estimated or simulated"},
				{"window_ns", i64, false, "ns",
					"part of fct_ns - ideal_ns that is due to a window smaller than the path needs"},
				{"slowdown", f64, false, "", "fct_ns / ideal_ns, at least 1"},
				{"retransmissions", i32, false, "", "retransmitted packets of the flow"},
				{"reordered", i32, false, "", "packets that arrived after a packet that was sent later (RFC 4737)"},
			}),
	}
	LinkStats = Table{
		Name: "link_stats",
		Doc: "Traffic of each link and statistics of its link case or, with estimator exact, of the link in the " +
			"whole network. The statistics are 0 for a link that was not simulated (see link_clusters).",
		Grain: "link", Key: []string{"link_id"}, Sort: []string{"link_id"}, Variant: true,
		Columns: append(Links.Select("link_id", "src_node", "dst_node", "tier", "bandwidth_bps"), []Column{
			{"available_bps", i64, false, "bps", "bandwidth less the bandwidth of the ACKs that the link carries"},
			{"flows", i64, false, "", "number of flows that cross the link; if paths change, on their first paths"},
			{"bytes", i64, false, "bytes",
				"their bytes, without headers; if paths change, the bytes that were sent, with retransmissions"},
			{"packets", i64, false, "",
				"their packets, ⌈size/payload⌉ for each flow; if paths change, the packets that were sent"},
			{"load", f64, false, "",
				"bytes, without headers, as a fraction of the link's capacity over the duration of the workload"},
			{"packets_sent", i64, false, "", "packets sent in the case"},
			{"packets_marked", i64, false, "", "packets that the link marked (ECN)"},
			{"busy_ns", i64, false, "ns", "time in which the link was sending"},
			{"max_queue_bytes", i64, false, "bytes",
				"longest queue at the start of a packet's transmission, including that packet"},
			{"max_queue_at_ns", i64, false, "ns", "time at which the queue was first that long"},
			{"mean_queue_packets", f64, false, "",
				"number of waiting packets, averaged over the time in which the link sends"},
			{"mean_wait_ns", f64, false, "ns", "mean queueing wait of a packet"},
			{"feedback_share", f64, false, "", "estimator flow: mean of wait / round trip + marks, by packet"},
			{"crowded_at_ns", arrow.ListOfNonNullable(f64), false, "ns",
				"link cases with limited buffers: for each slot of 10 µs with a long queue, when it was longest; else " +
					"empty"},
			{"crowded_bytes", arrow.ListOfNonNullable(f64), false, "bytes",
				"length of the queue at these times; unnest both columns"},
			{"cached", boo, false, "",
				"whether the result came from the cache; in a shared file, in the run that wrote it"},
			{"drops", i64, false, "", "estimator exact: packets that the switch dropped before the link; else 0"},
			{"paused_ns", i64, false, "ns",
				"estimator exact: time in which the switch at the link's end paused the sender (PFC)"},
		}...),
	}
	LinkClasses = Table{
		Name: "link_classes", Doc: "Marks, drops and pauses of each traffic class at each link. Empty unless " +
			"estimator exact simulates classes.",
		Grain: "link × class", Key: []string{"link_id", "class"}, Sort: []string{"link_id"}, Variant: true,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"class", str, false, "", "name of the class"},
			{"marks", i64, false, "", "packets of the class that the switch marked (ECN)"},
			{"drops", i64, false, "", "packets of the class that the switch dropped before the link"},
			{"paused_ns", i64, false, "ns", "time in which the switch at the link's end paused the class (PFC)"},
		},
	}
	LinkSlots = Table{
		Name: "link_slots", Doc: "Bytes that each link sent over time. Empty unless estimator exact simulates " +
			"paths that change.",
		Grain: "link × slot in which it sent", Key: []string{"link_id", "from_ns"},
		Sort:    []string{"link_id", "from_ns"},
		Variant: true,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"from_ns", i64, false, "ns", "start of the slot"},
			{"to_ns", i64, false, "ns", "end of the slot, excluded; there are at most 128 slots of equal length"},
			{"bytes", i64, false, "bytes", "bytes that the link sent, with headers and retransmissions"},
			{"load", f64, false, "", "bytes as a fraction of the bandwidth of the link"},
		},
	}
	Intervals = Table{
		Name: "intervals",
		Doc: "95% confidence intervals of the percentiles of slowdown. They have two parts: the variation between " +
			"workloads of the same kind, from blocks of time, and for estimator flow the method's own " +
			"error, which is estimated from the disagreement of link cases about the same flows. Variants from " +
			"windows of time have other parts, which the answer names. The groups are all flows and each service, by " +
			"size bin, and each virtual network and each service within it. Only the first 64 groups of each kind " +
			"have rows. Every group has rows with size_bin 'all'; those of all flows are the ones where service and " +
			"vnet are null.",
		Grain: "group of flows × quantile", Key: []string{"service", "vnet", "size_bin", "quantile"},
		Sort: []string{}, Variant: true,
		Columns: []Column{
			{"service", str, true, "", "service of the flows; null for the flows of all services"},
			{"vnet", str, true, "", "virtual network of the flows; null for the flows of all networks"},
			{"size_bin", str, false, "", "size bin of the flows, or all"},
			{"quantile", f64, false, "", "0.5, 0.9, 0.99 or 0.999"},
			{"flows", i64, false, "", "number of flows in the group"},
			{"estimate", f64, false, "", "slowdown at the quantile, interpolated as in answers, to within 0.1%"},
			{"lo", f64, true, "", "lower bound of the interval, of both parts; null if it is not known"},
			{"hi", f64, true, "", "upper bound of the interval, of both parts; null if it is not known"},
			{"warning", str, false, "", "why the workload is too short for this percentile, or empty"},
			{"workload_lo", f64, true, "", "lower bound of the first part alone; null if lo has no other part"},
			{"workload_hi", f64, true, "", "upper bound of the first part alone; null if hi has no other part"},
			{"method_error", f64, true, "",
				"the method's own error, ± relative to the estimate; null if it is unknown"},
		},
	}
	Warnings = Table{
		Name:  "warnings",
		Doc:   "Conditions under which the estimate is less accurate, each with the reason and what to do.",
		Grain: "kind × link × warning", Key: []string{"kind", "link_id", "warning"}, Sort: []string{},
		Variant: true,
		Columns: []Column{
			{"kind", str, false, "",
				"overload, flows, long path, transport, window, disagreement, unsettled, spread, buffers, " +
					"loaded twice, mixed sizes, clusters"},
			{"measure", f64, true, "", "value that is compared with the threshold; null if there is none"},
			{"threshold", f64, true, "", "smallest measure with a warning"},
			{"link_id", i32, true, "", "link concerned; null if the warning is not about one link"},
			{"warning", str, false, "", "the reason"},
		},
	}
)

// Tables of an estimate from windows of time (run --within). Its variant is that of the windows' estimates,
// followed by "-sampled-<windows>". It has table intervals, too, whose estimates and bounds are those of the
// whole workload.
var (
	Windows = Table{
		Name: "windows", Doc: "Windows of time that were drawn from the workload and estimated instead of the " +
			"whole (--within).",
		Grain: "window", Key: []string{"window"}, Sort: []string{"window"}, Variant: true,
		Columns: []Column{
			{"window", i32, false, "", "number of the slot of time that was drawn, from 0 over the whole workload"},
			{"round", i32, false, "", "round of drawing, from 1"},
			{"window_scenario", str, false, "", "hidden scenario in which the window was estimated"},
			{"stratum", i32, false, "", "stratum of the slot, from 0"},
			{"stratum_slots", i32, false, "", "number of slots of the stratum"},
			{"stratum_drawn", i32, false, "", "number of slots drawn from it"},
			{"weight", f64, false, "",
				"stratum_slots / stratum_drawn: number of flows of the workload for each flow of the window"},
			{"from_ns", i64, false, "ns", "start of the window"},
			{"to_ns", i64, false, "ns", "end of the window, excluded"},
			{"warmup_ns", i64, false, "ns", "time that is simulated before the window, and after it"},
			{"flows", i64, false, "", "number of flows that start in the window"},
			{"bytes", i64, false, "bytes", "their bytes"},
		},
	}
	SampledSlowdowns = Table{
		Name: "sampled_slowdowns",
		Doc: "Estimates of the flows of the windows, with the weights that percentiles " +
			"must use.",
		Grain: "flow", Key: []string{"flow_id"}, Sort: []string{}, Variant: true,
		Columns: slices.Concat(Slowdowns.Select("flow_id"), []Column{
			{"window", i32, false, "", "window in which the flow starts"},
			{"weight", f64, false, "", "weight, as in windows"},
		}, Slowdowns.Select("src", "dst", "service", "vnet", "size_bytes", "start_ns", "ideal_ns", "fct_ns",
			"slowdown")),
	}
)

// MessageSizes is a table of an estimate of a flow log.
var MessageSizes = Table{
	Name: "message_sizes",
	Doc: "How p99 of slowdown depends on message sizes that are assumed because no rule states them " +
		"(--traffic). The same windows of time are simulated packet by packet with the assumed sizes, with a " +
		"third of them and with three times them. Empty unless the run assumes sizes.",
	Grain: "group of flows × factor", Key: []string{"service", "factor"}, Sort: []string{}, Variant: true,
	Columns: []Column{
		{"service", str, true, "", "service of the flows; null for the flows of all services"},
		{"factor", f64, false, "", "factor of all assumed sizes: 1/3, 1 or 3"},
		{"message_bytes", i64, true, "bytes",
			"message size of the service; null if it is not assumed, or for all services"},
		{"windows", i32, false, "", "number of windows"},
		{"windows_share", f64, false, "", "share of the flows that start in the windows, with factor 1"},
		{"flows", i64, false, "", "number of flows that start in the windows"},
		{"p99_windows", f64, false, "", "p99 of slowdown of these flows"},
		{"change", f64, false, "", "p99_windows relative to that with factor 1, less 1"},
		{"change_lo", f64, false, "", "lower bound of the 95% interval of change, for other windows"},
		{"change_hi", f64, false, "", "upper bound"},
	},
}

// Tables of the whole-network simulation and of its comparison with estimates. The variant of exact_fcts and
// exact_hops is "exact".
var (
	ExactFCTs = Table{
		Name: "exact_fcts", Doc: "FCT of each flow in a packet simulation of the whole network.",
		Grain: "flow", Key: []string{"flow_id"}, Sort: []string{}, Variant: true,
		Columns: Slowdowns.Select("flow_id", "flow_row", "size_bytes", "start_ns", "hops", "ideal_ns", "fct_ns",
			"window_ns", "slowdown", "retransmissions", "reordered"),
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
			{"truth", str, false, "",
				"what the estimate is compared with: a variant of exact_fcts, a file, or log, the durations in the " +
					"flow log"},
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
	ValidationLinks = Table{
		Name: "validation_links",
		Doc: "Bytes of each link over time, in the flow log and in the run of it (validate --truth log). The " +
			"variant is that of the estimate.",
		Grain: "link × slot", Key: []string{"link_id", "from_ns"}, Sort: []string{"from_ns", "link_id"},
		Variant: true, Published: true,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"from_ns", i64, false, "ns", "start of the slot, or of the part of the log if that is later"},
			{"to_ns", i64, false, "ns", "end of the slot, excluded, or of the part of the log if that is earlier"},
			{"log_bytes", i64, false, "bytes",
				"bytes that the log has in the slot, on the paths of the run"},
			{"simulated_bytes", i64, false, "bytes",
				"bytes that the simulated flows send in the slot, without headers"},
			{"earlier_bytes", i64, false, "bytes",
				"those of log_bytes that the run leaves out, because their transfers began before its part of the log"},
			{"counted_bytes", i64, true, "bytes", "bytes that the interface counted in the slot; null if unknown"},
		},
	}
)
