package schema

import (
	"fmt"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
)

// Version is the version of the lake's tables. It stands in the metadata of every Parquet file
// (key VersionKey) and changes whenever a column changes its name, type or meaning.
const Version = 4

// VersionKey and TableKey are the Parquet and Arrow metadata keys that carry Version and the
// table's name.
const (
	VersionKey = "parsimon.schema_version"
	TableKey   = "parsimon.table"
)

// Column is one column of a table. Unit is empty for ids, counts, labels and ratios.
type Column struct {
	Name     string
	Type     arrow.DataType
	Nullable bool
	Unit     string
	Doc      string
}

// Table is one table of the lake.
type Table struct {
	Name string
	Doc  string
	// Grain says what one row is.
	Grain string
	// Key columns identify a row within a scenario (and variant, where Variant is set).
	Key []string
	// Sort is the order of the rows within one file.
	Sort []string
	// Temporary is true for tables that only the stages of an estimate exchange. They are stored as Arrow files
	// and removed when no stage needs them any more; no view shows them.
	Temporary bool
	// Variant is true for tables that depend on how they were estimated, and so stand below
	// variant=<name> in the lake.
	Variant bool
	// Workload says whether the table stands below workload=<id>, where ingested traces are.
	Workload InWorkload
	Columns  []Column
}

// InWorkload says whether a table is one of scenarios, of workloads, or of both.
type InWorkload int

// Where a table stands. One of both is a view of its own for each: flows for scenarios and
// workload_flows for workloads.
const (
	NotInWorkload InWorkload = iota
	AlsoInWorkload
	OnlyInWorkload
)

var (
	i16 = arrow.PrimitiveTypes.Int16
	i32 = arrow.PrimitiveTypes.Int32
	i64 = arrow.PrimitiveTypes.Int64
	f64 = arrow.PrimitiveTypes.Float64
	str = arrow.BinaryTypes.String
	boo = arrow.FixedWidthTypes.Boolean
	bin = arrow.BinaryTypes.Binary
)

// The tables of the lake.
var (
	Scenarios = Table{
		Name: "scenarios", Doc: "What was simulated: one row per scenario, with everything its id is a hash of.",
		Grain: "scenario", Key: []string{"scenario_id"}, Sort: []string{"scenario_id"},
		Columns: []Column{
			{"scenario_id", str, false, "", "hash of topology, workload, transport and seed"},
			{"base_id", str, true, "", "scenario this one was made from, whose unchanged tables it shares; null for most"},
			{"name", str, false, "", "name from the scenario file, or the flow file's name"},
			{"seed", i64, false, "", "seed of every random stream"},
			{"spec", str, false, "", "the whole scenario in canonical JSON"},
			{"flows", i64, false, "", "flows simulated"},
			{"rejects", i64, false, "", "rows of the flow file that could not be simulated"},
			{"first_start_ns", i64, false, "ns", "start of the first flow"},
			{"last_start_ns", i64, false, "ns", "start of the last flow"},
			{"max_load", f64, true, "", "asked load of the most loaded link; null for traces"},
		},
	}
	Nodes = Table{
		Name: "nodes", Doc: "The vertices of the topology.",
		Grain: "node", Key: []string{"node_id"}, Sort: []string{"node_id"}, Workload: AlsoInWorkload,
		Columns: []Column{
			{"node_id", i32, false, "", "id as in the topology file"},
			{"name", str, false, "", "name, or the id in words where the topology has none"},
			{"kind", str, false, "", "host, tor, fabric, spine or switch"},
			{"pod", i32, true, "", "pod, counted from 0; null where the topology has none"},
			{"rack", i32, true, "", "rack, counted from 0 over the whole network; null where the topology has none"},
		},
	}
	Links = Table{
		Name: "links", Doc: "The links: one row for each direction of each cable.",
		Grain: "link", Key: []string{"link_id"}, Sort: []string{"link_id"}, Workload: AlsoInWorkload,
		Columns: []Column{
			{"link_id", i32, false, "", "2 × the cable's place in the topology, + 1 for the direction b → a"},
			{"src_node", i32, false, "", "sending end"},
			{"dst_node", i32, false, "", "receiving end"},
			{"bandwidth_bps", i64, false, "bps", "bandwidth"},
			{"delay_ns", i64, false, "ns", "propagation delay"},
			{"tier", str, false, "", "kinds of the two ends, e.g. host-tor, fabric-spine"},
			{"failed", boo, false, "", "the cable is down in this scenario"},
		},
	}
	Flows = Table{
		Name: "flows", Doc: "The workload.",
		Grain: "flow", Key: []string{"flow_id"}, Sort: []string{"start_ns", "flow_id"}, Workload: AlsoInWorkload,
		Columns: []Column{
			{"flow_id", i64, false, "", "id as in the flow file; generated flows count from 0 in start order"},
			{"src", i32, false, "", "sending host"},
			{"dst", i32, false, "", "receiving host"},
			{"size_bytes", i64, false, "bytes", "bytes to deliver, without headers; > 0"},
			{"start_ns", i64, false, "ns", "start"},
			{"service", str, false, "", "service the flow belongs to; empty if unknown"},
			{"vnet", str, false, "", "virtual network the flow belongs to; empty if unknown"},
			{"synthetic_start", boo, false, "", "the start was not measured: it was drawn within what the flow log says, or is that of the first sampled packet"},
		},
	}
	Rejects = Table{
		Name: "rejects", Doc: "Rows of flow files that cannot be simulated.",
		Grain: "input row", Key: []string{"file", "row"}, Sort: []string{"file", "row"}, Workload: AlsoInWorkload,
		Columns: []Column{
			{"file", str, false, "", "input file"},
			{"row", i64, false, "", "row in the file, counted from 1"},
			{"reason", str, false, "", "why the row cannot be simulated"},
			{"raw", str, false, "", "the row as it was read"},
		},
	}
	Hops = Table{
		Name: "hops", Doc: "Flows exploded to the links they cross, the input of the link cases.",
		Grain: "flow × hop", Key: []string{"flow_id", "hop"}, Sort: []string{"link_id", "flow_row"},
		Columns: []Column{
			{"link_id", i32, false, "", "link crossed"},
			{"flow_row", i64, false, "", "the flow's row in table flows, counted from 0 over all files in start order"},
			{"flow_id", i64, false, "", "flow"},
			{"hop", i16, false, "", "place of the link on the path, from 0"},
			{"hops", i16, false, "", "number of links on the path"},
			{"size_bytes", i64, false, "bytes", "the flow's size"},
			{"start_ns", i64, false, "ns", "the flow's start"},
			{"first_link", i32, false, "", "hop 0 of the path: the source's own link"},
			{"prev_link", i32, false, "", "the hop before this one; -1 at hop 0"},
			{"delay_to_link_ns", i64, false, "ns", "propagation from the source to the sending end of this link"},
			{"path_delay_ns", i64, false, "ns", "propagation from the source to the destination"},
			{"path_send_ns", i64, false, "ns", "what a full packet needs to be sent on all links of the path, and its ACK on the way back"},
			{"upstream_bps", i64, false, "bps", "slowest link between the source's own and the link before this one; 0 if it is not slower than the source's own"},
			{"downstream_bps", i64, false, "bps", "slowest link behind this one; 0 if it is not slower than this one (hop 0: if there is none)"},
		},
	}
	LinkLoads = Table{
		Name: "link_loads", Doc: "What each link carries, known after routing; several rows a link, one per routed chunk of the workload.",
		Grain: "link × chunk", Key: []string{"link_id", "chunk"}, Sort: []string{"link_id"}, Workload: AlsoInWorkload,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"chunk", i32, false, "", "chunk of the workload"},
			{"flows", i64, false, "", "flows that cross the link"},
			{"bytes", i64, false, "bytes", "their bytes, without headers"},
			{"packets", i64, false, "", "their packets"},
			{"first_start_ns", i64, false, "ns", "start of the first"},
			{"last_start_ns", i64, false, "ns", "start of the last"},
		},
	}
	LinkClusters = Table{
		Name: "link_clusters", Doc: "Which link's case answers for each link that carries flows (--cluster). For all passes of estimator flow: under the first one's variant.",
		Grain: "link", Key: []string{"link_id"}, Sort: []string{"link_id"}, Variant: true,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"representative", i32, false, "", "link whose case was simulated for it; itself for a representative"},
			{"distance", f64, false, "", "how far it is from its representative, over what is allowed: below 1"},
			{"members", i32, false, "", "links in its cluster"},
		},
	}
	LinkStats = Table{
		Name: "link_stats", Doc: "What each link carried and what its link case saw: nothing (0) where another link's answers for it (link_clusters), and with ns-3, which answers FCTs alone.",
		Grain: "link", Key: []string{"link_id"}, Sort: []string{"link_id"}, Variant: true,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"src_node", i32, false, "", "sending end"},
			{"dst_node", i32, false, "", "receiving end"},
			{"tier", str, false, "", "as in links"},
			{"bandwidth_bps", i64, false, "bps", "bandwidth of the link"},
			{"available_bps", i64, false, "bps", "bandwidth less the ACKs it carries: what the link case simulates"},
			{"flows", i64, false, "", "flows that cross the link"},
			{"bytes", i64, false, "bytes", "their bytes, without headers"},
			{"packets", i64, false, "", "their packets, ⌈size/payload⌉ each: the packet-hops of the case"},
			{"load", f64, false, "", "bytes over what the link could carry in the time the workload spans"},
			{"packets_sent", i64, false, "", "packets the case sent"},
			{"packets_marked", i64, false, "", "packets marked by the link"},
			{"busy_ns", i64, false, "ns", "time the link was sending"},
			{"max_queue_bytes", i64, false, "bytes", "deepest queue, the packet in service included"},
			{"max_queue_at_ns", i64, false, "ns", "when it was deepest, first"},
			{"mean_queue_packets", f64, false, "", "packets waiting, on average over the time the link was sending"},
			{"mean_wait_ns", f64, false, "ns", "mean wait of a packet in the queue"},
			{"cached", boo, false, "", "the case was not simulated: its result was found in the cache. In a file shared with the base, what was so there"},
		},
	}
	HopDelays = Table{
		Name: "hop_delays", Doc: "The link cases' answers: each flow's FCT in the case of each link it crosses.",
		Grain: "flow × hop", Key: []string{"link_id", "flow_id"}, Sort: []string{"link_id", "flow_row"}, Variant: true,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"flow_row", i64, false, "", "the flow's row in table flows"},
			{"flow_id", i64, false, "", "flow"},
			{"hop", i16, false, "", "place of the link on the path, from 0"},
			{"hops", i16, false, "", "number of links on the path"},
			{"size_bytes", i64, false, "bytes", "the flow's size"},
			{"fct_ns", i64, false, "ns", "FCT in the link case"},
			{"ideal_ns", i64, false, "ns", "FCT of the flow alone in the same link case"},
			{"wait_ns", i64, false, "ns", "time the flow's last packet waited in the link's queue; 0 with ns-3, which does not say"},
		},
	}
	DelayBuckets = Table{
		Name: "delay_buckets", Doc: "Packet-normalised delay distributions of each link by flow size.",
		Grain: "link × bucket", Key: []string{"link_id", "bucket"}, Sort: []string{"link_id", "bucket"}, Variant: true,
		Columns: []Column{
			{"link_id", i32, false, "", "link"},
			{"bucket", i32, false, "", "bucket, from 0 in order of size"},
			{"size_min_bytes", i64, false, "bytes", "smallest flow in the bucket"},
			{"size_max_bytes", i64, false, "bytes", "largest flow in the bucket"},
			{"n", i64, false, "", "number of delays"},
			{"delays", arrow.ListOfNonNullable(f64), false, "ns per packet", "packet-normalised delays, ascending"},
		},
	}
	HopObservations = Table{
		Name: "hop_observations", Doc: "What each flow's packets met at each hop in one pass over the link cases (estimator flow).",
		Grain: "flow × hop", Key: []string{"flow_row", "hop"}, Sort: []string{"flow_row", "hop"}, Variant: true, Temporary: true,
		Columns: []Column{
			{"flow_row", i64, false, "", "the flow's row in table flows"},
			{"hop", i16, false, "", "place of the link on the path, from 0"},
			{"hops", i16, false, "", "number of links on the path"},
			{"link_id", i32, false, "", "link"},
			{"observed", bin, false, "", "waits and marks of the packets, in blocks (stages/waits.go); hop 0: how long other flows held them at the host"},
		},
	}
	ImputedObservations = Table{
		Name: "imputed_observations", Doc: "What stands in for hop_observations on links that another's case answers for (--cluster): what each flow's donor met on the representative.",
		Grain: "flow × hop", Key: []string{"flow_row", "hop"}, Sort: []string{"flow_row", "hop"}, Variant: true, Temporary: true,
		Columns: HopObservations.Columns,
	}
	UplinkObservations = Table{
		Name: "uplink_observations", Doc: "hop_observations before the first pass: those of hosts' uplinks, which know nothing of the other links; the other hops have no blocks (estimator flow).",
		Grain: "flow × hop", Key: []string{"flow_row", "hop"}, Sort: []string{"flow_row", "hop"}, Variant: true,
		Columns: HopObservations.Columns,
	}
	SentObservations = Table{
		Name: "sent_observations", Doc: "What each hop contributes to the feedback of the flow's other hops after a pass: its observations of all passes so far, damped.",
		Grain: "flow × hop", Key: []string{"flow_row", "hop"}, Sort: []string{"flow_row", "hop"}, Variant: true,
		Columns: HopObservations.Columns,
	}
	UplinkFeedback = Table{
		Name: "uplink_feedback", Doc: "What the first pass gives the link cases: the NIC waits of each flow's packets.",
		Grain: "flow × hop", Key: []string{"flow_row", "hop"}, Sort: []string{"link_id", "flow_row"}, Variant: true,
		Columns: feedbackColumns,
	}
	Feedback = Table{
		Name: "feedback", Doc: "What each flow's packets met at its other hops: what the next pass tells the link cases.",
		Grain: "flow × hop", Key: []string{"flow_row", "hop"}, Sort: []string{"link_id", "flow_row"}, Variant: true, Temporary: true,
		Columns: feedbackColumns,
	}
	SenderFeedback = Table{
		Name: "sender_feedback", Doc: "What each flow's packets met behind its host's own link in the last pass: what the hosts' own cases are told in the end.",
		Grain: "flow", Key: []string{"flow_row"}, Sort: []string{"link_id", "flow_row"}, Variant: true, Temporary: true,
		Columns: feedbackColumns,
	}
	SenderFCTs = Table{
		Name: "sender_fcts", Doc: "Each flow's FCT in the link case of its host's own link, told all that its packets met elsewhere: its whole journey.",
		Grain: "flow", Key: []string{"flow_row"}, Sort: []string{"flow_row"}, Variant: true,
		Columns: []Column{
			{"flow_row", i64, false, "", "the flow's row in table flows"},
			{"fct_ns", i64, false, "ns", "FCT in the case"},
			{"ideal_ns", i64, false, "ns", "FCT of the flow alone in the case, with a window that never binds"},
		},
	}
	HopContributions = Table{
		Name: "hop_contributions", Doc: "What each hop adds to each flow's FCT under the chosen estimator, ordered by flow for the sample stage.",
		Grain: "flow × hop", Key: []string{"flow_row", "hop"}, Sort: []string{"flow_row", "hop"}, Variant: true,
		Columns: []Column{
			{"flow_row", i64, false, "", "the flow's row in table flows"},
			{"hop", i16, false, "", "place of the link on the path, from 0"},
			{"hops", i16, false, "", "number of links on the path"},
			{"link_id", i32, false, "", "link"},
			{"delay_ns", f64, false, "ns", "delay this hop contributes under the estimator"},
			{"wait_ns", f64, false, "ns", "part of it that is the wait of the flow's last packet in the queue; 0 where the estimator does not tell them apart"},
		},
	}
	Slowdowns = Table{
		Name: "slowdowns", Doc: "The answer: one row per simulated flow.",
		Grain: "flow", Key: []string{"flow_id"}, Sort: []string{"start_ns", "flow_id"}, Variant: true,
		Columns: []Column{
			{"flow_id", i64, false, "", "flow"},
			{"flow_row", i64, false, "", "the flow's row in table flows, which hop_contributions and hop_delays name too"},
			{"src", i32, false, "", "sending host"},
			{"dst", i32, false, "", "receiving host"},
			{"service", str, false, "", "as in flows"},
			{"vnet", str, false, "", "as in flows"},
			{"size_bytes", i64, false, "bytes", "the flow's size"},
			{"start_ns", i64, false, "ns", "the flow's start"},
			{"hops", i16, false, "", "number of links on the path"},
			{"ideal_ns", i64, false, "ns", "FCT of the flow alone in the network on this path"},
			{"fct_ns", i64, false, "ns", "estimated FCT"},
			{"slowdown", f64, false, "", "fct_ns / ideal_ns, at least 1"},
		},
	}
)

// Tables that say how far the answer can be trusted.
var (
	Intervals = Table{
		Name: "intervals", Doc: "95% intervals of the percentiles of slowdown, by a bootstrap over stretches of time: what other flows of the same kind might have given, not the method's own bias.",
		Grain: "group of flows × quantile", Key: []string{"service", "vnet", "size_bin", "quantile"}, Sort: []string{}, Variant: true,
		Columns: []Column{
			{"service", str, true, "", "flows of this service; null: of all"},
			{"vnet", str, true, "", "flows of this virtual network; null: of all"},
			{"size_bin", str, false, "", "flows of these sizes, or all"},
			{"quantile", f64, false, "", "0.5, 0.9, 0.99 or 0.999"},
			{"flows", i64, false, "", "flows in the group"},
			{"estimate", f64, false, "", "slowdown at the quantile, to within 0.1%"},
			{"lo", f64, false, "", "lower end of the interval"},
			{"hi", f64, false, "", "upper end of the interval"},
			{"warning", str, false, "", "why the trace is too short for this percentile; empty if it is not"},
		},
	}
	Warnings = Table{
		Name: "warnings", Doc: "Where the method is known to be weak and the scenario is such a case, with the reason; no row where it is not.",
		Grain: "kind of weakness", Key: []string{"kind"}, Sort: []string{}, Variant: true,
		Columns: []Column{
			{"kind", str, false, "", "loaded twice, fan-in or unsettled"},
			{"measure", f64, true, "", "what was measured, a share; null where there was nothing to measure"},
			{"threshold", f64, true, "", "from where on there is a warning"},
			{"link_id", i32, true, "", "link it is about; null if it is about no single one"},
			{"warning", str, false, "", "the reason, in words"},
		},
	}
)

// Tables of the whole-network simulation and of its comparison with estimates. Their variant is
// "exact", or "exact-<from>-<to>" for a window of the workload, in ns; with finite switch buffers followed
// by "-buffer-<bytes>-alpha-<alpha>" and, if it was set, "-retransmit-<ns>".
var (
	ExactFCTs = Table{
		Name: "exact_fcts", Doc: "The truth: each flow's FCT in a simulation of the whole network, packet by packet.",
		Grain: "flow", Key: []string{"flow_id"}, Sort: []string{}, Variant: true,
		Columns: []Column{
			{"flow_id", i64, false, "", "flow"},
			{"flow_row", i64, false, "", "the flow's row in table flows"},
			{"size_bytes", i64, false, "bytes", "the flow's size"},
			{"start_ns", i64, false, "ns", "the flow's start"},
			{"hops", i16, false, "", "number of links on the path"},
			{"ideal_ns", i64, false, "ns", "FCT of the flow alone in the network on this path"},
			{"fct_ns", i64, false, "ns", "simulated FCT"},
			{"slowdown", f64, false, "", "fct_ns / ideal_ns, at least 1"},
		},
	}
	ExactHops = Table{
		Name: "exact_hops", Doc: "Where each flow of exact_fcts waited.",
		Grain: "flow × hop", Key: []string{"flow_row", "hop"}, Sort: []string{}, Variant: true,
		Columns: []Column{
			{"flow_row", i64, false, "", "the flow's row in table flows"},
			{"hop", i16, false, "", "place of the link on the path, from 0"},
			{"link_id", i32, false, "", "link"},
			{"wait_ns", i64, false, "ns", "sum of the waits of the flow's packets in the link's queue; 0 at hop 0, where packets come to be when they are sent"},
			{"last_wait_ns", i64, false, "ns", "wait of the flow's last packet"},
		},
	}
	Validations = Table{
		Name: "validations", Doc: "An estimate held against a truth: percentiles of slowdown by flow size. The variant is the estimate's.",
		Grain: "truth × size bin × quantile", Key: []string{"truth", "size_bin", "quantile"}, Sort: []string{}, Variant: true,
		Columns: []Column{
			{"truth", str, false, "", "what the estimate was held against: the variant of exact_fcts, or a file"},
			{"size_bin", str, false, "", "flow sizes, or all"},
			{"flows", i64, false, "", "flows that have both an estimate and a truth"},
			{"quantile", f64, false, "", "0.5, 0.9, 0.99 or 0.999"},
			{"estimate", f64, false, "", "estimated slowdown at the quantile"},
			{"true_slowdown", f64, false, "", "true slowdown at the quantile, over the estimate's ideal"},
			{"error", f64, false, "", "estimate / truth - 1"},
			{"error_lo", f64, false, "", "lower end of the error's 95% bootstrap interval"},
			{"error_hi", f64, false, "", "upper end of the error's 95% bootstrap interval"},
			{"wasserstein", f64, false, "", "Wasserstein-1 distance of the logarithms of the slowdowns in the bin"},
		},
	}
)

// Tables of comparisons of two estimates. Their scenario and variant are those of the second; base names
// the first.
var (
	Comparisons = Table{
		Name: "comparisons", Doc: "Two scenarios side by side: percentiles of slowdown of the flows that are in both.",
		Grain: "base × group of flows × quantile", Key: []string{"base_scenario", "base_variant", "service", "vnet", "size_bin", "hops", "quantile"}, Sort: []string{}, Variant: true,
		Columns: []Column{
			{"base_scenario", str, false, "", "scenario compared with"},
			{"base_variant", str, false, "", "its variant"},
			{"service", str, false, "", "service of the flows, or all"},
			{"vnet", str, false, "", "virtual network of the flows, or all"},
			{"size_bin", str, false, "", "sizes of the flows, or all"},
			{"hops", str, false, "", "links on the flows' paths in the base, or all"},
			{"flows", i64, false, "", "flows of the group that are in both"},
			{"quantile", f64, false, "", "0.5, 0.9, 0.99 or 0.999"},
			{"base_slowdown", f64, false, "", "slowdown at the quantile in the base"},
			{"slowdown", f64, false, "", "slowdown at the quantile"},
			{"change", f64, false, "", "slowdown / base_slowdown - 1"},
			{"change_lo", f64, false, "", "lower end of the change's 95% bootstrap interval, flows drawn in pairs"},
			{"change_hi", f64, false, "", "upper end of the change's 95% bootstrap interval"},
		},
	}
	ComparisonLinks = Table{
		Name: "comparison_links", Doc: "Which links explain the difference of two scenarios: where the flows of the tail are delayed more or less.",
		Grain: "base × link", Key: []string{"base_scenario", "base_variant", "link_id"}, Sort: []string{}, Variant: true,
		Columns: []Column{
			{"base_scenario", str, false, "", "scenario compared with"},
			{"base_variant", str, false, "", "its variant"},
			{"place", i64, false, "", "from 1, the largest difference first"},
			{"link_id", i32, false, "", "link"},
			{"tail_flows", i64, false, "", "flows above the p99 of either scenario: the tail, the same for all links"},
			{"base_load", f64, false, "", "the link's load in the base"},
			{"load", f64, false, "", "the link's load"},
			{"base_delay_ns", f64, false, "ns", "delay at the link in the base, a mean over the tail"},
			{"delay_ns", f64, false, "ns", "delay at the link, a mean over the tail"},
		},
	}
)

// Sweeps is the answer of a sweep: its scenario is the base, its variant how the worst were estimated.
var Sweeps = Table{
	Name: "sweeps", Doc: "What each cable of a tier would do to slowdown if it failed.",
	Grain: "cable × service", Key: []string{"tier", "node_a", "node_b", "service"}, Sort: []string{}, Variant: true,
	Columns: []Column{
		{"tier", str, false, "", "tier that was swept, or several"},
		{"node_a", i32, false, "", "end of the cable that failed, the lower id"},
		{"node_b", i32, false, "", "its other end"},
		{"service", str, false, "", "service of the flows, or all"},
		{"flows", i64, false, "", "flows of the service that have a path"},
		{"unreachable", i64, false, "", "flows, of all services, that have none"},
		{"estimated", str, false, "", "variant of the estimate, for the worst; screening for the others: what the changed links' own cases add to the base's estimate"},
		{"p50_slowdown", f64, false, "", "median slowdown with the cable down"},
		{"p90_slowdown", f64, false, "", "p90 of slowdown"},
		{"p99_slowdown", f64, false, "", "p99 of slowdown"},
		{"p999_slowdown", f64, false, "", "p99.9 of slowdown"},
		{"p50_change", f64, false, "", "p50_slowdown over that of the base, - 1"},
		{"p90_change", f64, false, "", "the same of p90"},
		{"p99_change", f64, false, "", "the same of p99"},
		{"p999_change", f64, false, "", "the same of p99.9"},
		{"simulated_cases", i64, false, "", "link cases simulated for it, screening and full estimate together"},
		{"cached_cases", i64, false, "", "link cases found in the cache"},
	},
}

// Tables lists every table of the lake.
func Tables() []Table {
	return []Table{
		Scenarios, Nodes, Links, Flows, Rejects, Hops, LinkLoads, LinkClusters, LinkStats, HopDelays,
		DelayBuckets, HopObservations, ImputedObservations, UplinkObservations, SentObservations, UplinkFeedback, Feedback, SenderFeedback, SenderFCTs, HopContributions, Slowdowns, Intervals, Warnings, ExactFCTs, ExactHops, Validations, Workloads, Records,
		Comparisons, ComparisonLinks, Sweeps,
	}
}

// Tables of ingested traces: workloads, which stand below workload=<id> before any scenario exists.
var (
	Workloads = Table{
		Name: "workloads", Doc: "Ingested traces: one row per source file. rows = records + rejects; over a workload, records = flows + merged + rejects of merging.",
		Grain: "source file", Key: []string{"source"}, Sort: []string{"source"}, Workload: OnlyInWorkload,
		Columns: []Column{
			{"source", i32, false, "", "place of the file in the workload, from 1"},
			{"file", str, false, "", "the file"},
			{"digest", str, false, "", "SHA-256 of its bytes: a file is ingested once"},
			{"rows", i64, false, "", "its rows"},
			{"records", i64, false, "", "rows that became table records"},
			{"rejects", i64, false, "", "rows that stand in table rejects"},
			{"set_aside", i64, false, "", "those of the rejects that say themselves that they are no flows"},
		},
	}
	Records = Table{
		Name: "records", Doc: "The usable rows of the source files of a workload, hosts found and labels given, before records of one connection are merged.",
		Grain: "input row", Key: []string{"source", "row"}, Sort: []string{}, Workload: OnlyInWorkload,
		Columns: []Column{
			{"source", i32, false, "", "place of the file in table workloads"},
			{"row", i64, false, "", "row in the file, counted from 1"},
			{"flow_id", i64, true, "", "id as in the file; null if it has none"},
			{"src", i32, false, "", "sending host"},
			{"dst", i32, false, "", "receiving host"},
			{"protocol", i16, true, "", "IP protocol number"},
			{"src_port", i32, true, "", "source port"},
			{"dst_port", i32, true, "", "destination port"},
			{"observer", str, false, "", "interface or sampler that saw it; empty if unknown"},
			{"size_bytes", i64, false, "bytes", "bytes, sampling undone"},
			{"start_ns", i64, false, "ns", "start; for records of a flow log, the earliest it can have been"},
			{"end_ns", i64, false, "ns", "end; the start where none is known"},
			{"resolution_ns", i64, false, "ns", "the start lies in the resolution_ns from start_ns on; 0: it is start_ns"},
			{"sampled", boo, false, "", "only sampled packets were seen"},
			{"service", str, false, "", "service; empty if unknown"},
			{"vnet", str, false, "", "virtual network; empty if unknown"},
		},
	}
)

// ByName returns the table of that name.
func ByName(name string) (Table, error) {
	for _, t := range Tables() {
		if t.Name == name {
			return t, nil
		}
	}
	return Table{}, fmt.Errorf("no table %q in the lake", name)
}

// A View is a table as it is asked in SQL: all files of it that stand below the same kinds of
// directories, hive-partitioned, with their columns and those of the path.
type View struct {
	Name string
	Hive []string // columns of the path, in order
}

// Views are the views of the table: of scenarios, and of workloads where it stands there too.
func (t Table) Views() []View {
	workload := View{t.Name, []string{"workload"}}
	if t.Workload == OnlyInWorkload {
		return []View{workload}
	}
	v := View{t.Name, []string{"scenario"}}
	if t.Variant {
		v.Hive = append(v.Hive, "variant")
	}
	if t.Workload == AlsoInWorkload {
		workload.Name = "workload_" + t.Name
		return []View{v, workload}
	}
	return []View{v}
}

// Arrow returns the table's Arrow schema; its metadata carries the table's name and Version.
func (t Table) Arrow() *arrow.Schema {
	fields := make([]arrow.Field, len(t.Columns))
	for i, c := range t.Columns {
		fields[i] = arrow.Field{Name: c.Name, Type: c.Type, Nullable: c.Nullable}
	}
	md := arrow.NewMetadata([]string{VersionKey, TableKey}, []string{strconv.Itoa(Version), t.Name})
	return arrow.NewSchema(fields, &md)
}

// Index returns the place of a column, and panics if the table has no such column: column names
// are written in code, never read from input.
func (t Table) Index(column string) int {
	for i, c := range t.Columns {
		if c.Name == column {
			return i
		}
	}
	panic("schema: table " + t.Name + " has no column " + column)
}

// feedbackColumns are the columns of tables feedback, uplink_feedback and sender_feedback.
var feedbackColumns = []Column{
	{"link_id", i32, false, "", "link that is told"},
	{"flow_row", i64, false, "", "the flow's row in table flows"},
	{"hop", i16, false, "", "place of the link on the path, from 0"},
	{"observed", bin, false, "", "holds, waits and marks of the packets, in blocks (stages/waits.go)"},
}
