package schema

import (
	"github.com/apache/arrow/go/v17/arrow"
)

// Tables that the stages of the method pass to each other. Paths of flows:
//
//	flows ─ route ─→ hops, flow_paths, link_loads
var (
	Hops = Table{
		Name: "hops", Doc: "Links that each flow crosses: the input of the link cases.",
		Grain: "flow × hop", Key: []string{"flow_id", "hop"}, Sort: []string{"link_id", "flow_row"},
		Columns: []Column{
			{"link_id", i32, false, "", "link crossed"},
			{"flow_row", i64, false, "", "row of the flow in table flows, from 0 over all files by start time"},
			{"flow_id", i64, false, "", "flow"},
			{"hop", i16, false, "", "index of the link on the path, from 0"},
			{"hops", i16, false, "", "number of links on the path"},
			{"size_bytes", i64, false, "bytes", "size of the flow"},
			{"start_ns", i64, false, "ns", "start time of the flow"},
			{"first_link", i32, false, "", "hop 0 of the path: the uplink of the sending host"},
			{"delay_to_link_ns", i64, false, "ns",
				"propagation delay from the source to the sending node of this link"},
			{"path_delay_ns", i64, false, "ns", "propagation delay from the source to the destination"},
			{"path_send_ns", i64, false, "ns",
				"time to send a full packet on all links of the path, and its ACK back"},
			{"upstream_bps", i64, false, "bps",
				"bandwidth of the slowest link between the uplink and this one; 0 if none is slower than the uplink"},
			{"downstream_bps", i64, false, "bps",
				"bandwidth of the slowest link after this one; 0 if none is slower than this one (always at hop 0)"},
			{"between_ps", i32, false, "ps",
				"time to send a byte on the links between the uplink and this one; at hop 0, on the slowest link"},
		},
	}
	FlowPaths = Table{
		Name: "flow_paths",
		Doc: "Ideal FCT, window delay and round trip of each flow, as if it were alone in the network. Flows " +
			"without a path have no row.",
		Grain: "flow", Key: []string{"flow_row"}, Sort: []string{"flow_row"},
		Columns: append(Hops.Select("flow_row", "first_link", "hops"), []Column{
			{"slowest_hop", i16, false, "",
				"last hop with the lowest bandwidth behind hop 0; 0 if the path has one link"},
			{"ideal_ns", i64, false, "ns", "ideal FCT: that of the flow alone, with an unlimited window"},
			{"window_ns", i64, false, "ns", "delay of the flow alone by a window smaller than its path needs"},
			{"round_trip_ns", i64, false, "ns", "round trip of a full packet and its ACK, without waits"},
		}...),
	}
	LinkLoads = Table{
		Name:  "link_loads",
		Doc:   "Traffic of each link after routing, for each chunk of the workload.",
		Grain: "link × chunk", Key: []string{"link_id", "chunk"}, Sort: []string{"link_id"}, Scope: OfBoth,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"chunk", i32, false, "", "chunk of the workload"},
			{"flows", i64, false, "", "number of flows that cross the link"},
			{"bytes", i64, false, "bytes", "their bytes, without headers"},
			{"packets", i64, false, "", "their packets"},
			{"first_start_ns", i64, false, "ns", "start time of the first of them"},
			{"last_start_ns", i64, false, "ns", "start time of the last of them"},
			{"both_ns", i64, false, "ns",
				"with --starts-from, time in which this link and its reverse both send; else 0"},
		},
	}
	LinkClusters = Table{
		Name: "link_clusters",
		Doc: "With --cluster, the link whose link case represents each link that carries flows. " +
			"Estimator flow has one clustering for all passes, in the variant of the first.",
		Grain: "link", Key: []string{"link_id"}, Sort: []string{"link_id"}, Variant: true,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"representative", i32, false, "", "link whose case is simulated instead, possibly the link itself"},
			{"distance", f64, false, "", "from the representative, as a fraction of the allowed distance, below 1"},
			{"members", i32, false, "", "number of links in the cluster"},
		},
	}
)

// Tables of estimator independent: delays of the link cases, as distributions by flow size.
//
//	hops ─ simulate ─→ delay_buckets, hop_contributions
//	with --cluster: hops ─ simulate ─→ delay_buckets ─ draw ─→ hop_contributions
var (
	DelayBuckets = Table{
		Name: "delay_buckets", Doc: "Distributions of the packet-normalized delay of each link, by flow size.",
		Grain: "link × bucket", Key: []string{"link_id", "bucket"},
		Sort: []string{"link_id", "bucket"}, Variant: true,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"bucket", i32, false, "", "number of the bucket, from 0 by flow size"},
			{"size_min_bytes", i64, false, "bytes", "size of the smallest flow in the bucket"},
			{"size_max_bytes", i64, false, "bytes", "size of the largest flow in the bucket"},
			{"n", i64, false, "", "number of delays"},
			{"large_n", i64, false, "",
				"number of flows above the geometric mean of size_min_bytes and size_max_bytes"},
			{"small_delay", f64, false, "ns per packet", "mean delay of the other flows"},
			{"large_delay", f64, false, "ns per packet", "mean delay of the flows of large_n; 0 if there are none"},
			{"delays", arrow.ListOfNonNullable(f64), false, "ns per packet", "packet-normalized delays, ascending"},
		},
	}
	HopContributions = Table{
		Name: "hop_contributions",
		Doc: "The part of each flow's estimated FCT that each hop adds. Hops that add nothing have no row. All " +
			"hops are in table hops, or in exact_hops for estimator exact, and in view crossings. Table slowdowns " +
			"has the flow_id of each flow_row.",
		Grain: "flow × hop", Key: []string{"flow_row", "hop"}, Sort: []string{"flow_row", "hop"}, Variant: true,
		Columns: append(Hops.Select("flow_row", "hop", "hops", "link_id"), []Column{
			{"delay_ns", f64, false, "ns", "delay that the hop adds to the FCT"},
			{"wait_ns", f64, false, "ns", "part that is the wait of the flow's last packet; 0 if unknown"},
			{"longest_wait_ns", i64, false, "ns",
				"estimator flow with limited buffers: longest wait of a block of packets; else 0"},
			{"case_delay_ns", i64, false, "ns",
				"estimator independent without --cluster: delay of this flow in the link case; else 0"},
		}...),
	}
)

// Tables of estimator flow: the exchange of link cases in two passes, and the final replay. All except
// sender_fcts are temporary.
//
//	hops, feedback ─ simulate ─→ hop_observations ─ feedback ─→ feedback of the second pass
//	               last pass:    hop_observations ─→ sender_feedback ─ replay ─→ sender_fcts
//	               hop_observations, sender_fcts ─ sample ─→ case_slowdowns
var (
	CaseSlowdowns = Table{
		Name:  "case_slowdowns",
		Doc:   "Number of flows by slowdown in the link case in which they wait longest, for one chunk of flows.",
		Grain: "size bin × cell of slowdown", Key: []string{"bin", "cell"}, Sort: []string{"bin", "cell"},
		Variant: true, Temporary: true,
		Columns: []Column{
			{"bin", i32, false, "", "number of the size bin"},
			{"cell", i32, false, "", "cell of slowdown: 0 is exactly 1, and cell k ends at exp(k × 0.002)"},
			{"flows", i64, false, "", "number of flows"},
		},
	}
	HopObservations = Table{
		Name: "hop_observations",
		Doc: "Observations of one pass: waits and ECN marks of each flow's packets at each hop. In the first " +
			"pass, hops that observe nothing and have no delay have no row.",
		Grain: "flow × hop", Key: []string{"flow_row", "hop"}, Sort: []string{"flow_row", "hop"},
		Variant: true, Temporary: true,
		Columns: append(Hops.Select("flow_row", "hop", "hops", "link_id"), []Column{
			{"observed", bin, false, "", "waits and marks of the packets, encoded in blocks; at hop 0 the NIC waits"},
			{"delay_ns", i64, false, "ns", "FCT of the flow in the link's case less its ideal FCT there"},
		}...),
	}
	Feedback = Table{
		Name: "feedback",
		Doc: "Feedback for the link cases of the second pass: observations of each flow's packets at its other " +
			"hops.",
		Grain: "flow × hop", Key: []string{"flow_row", "hop"}, Sort: []string{"link_id", "flow_row"},
		Variant: true, Temporary: true,
		Columns: append(Hops.Select("link_id", "flow_row", "hop"),
			Column{"observed", bin, false, "",
				"NIC waits, queueing waits and marks of the packets, encoded in blocks"}),
	}
	SenderFeedback = Table{
		Name: "sender_feedback",
		Doc: "Feedback for the replay: observations of each flow's packets after its host's uplink, in the last " +
			"pass.",
		Grain: "flow", Key: []string{"flow_row"}, Sort: []string{"link_id", "flow_row"},
		Variant: true, Temporary: true,
		Columns: Feedback.Columns,
	}
	SenderFCTs = Table{
		Name: "sender_fcts",
		Doc: "Results of the replay: the FCT of each flow in the case of its host's uplink, with complete " +
			"feedback.",
		Grain: "flow", Key: []string{"flow_row"}, Sort: []string{"flow_row"}, Variant: true,
		Columns: []Column{
			{"flow_row", i64, false, "", "row of the flow in table flows"},
			{"fct_ns", i64, false, "ns", "FCT in the case"},
			{"ideal_ns", i64, false, "ns", "FCT of the flow alone in the case, with an unlimited window"},
		},
	}
)
