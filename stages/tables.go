package stages

import (
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/workload"
)

// Rows of the tables that stages write, in the order of the method. Columns, units and keys: package schema. What a
// stage reads of a table, where that is not all of a row, is embedded in it.

type flowAtHop struct {
	LinkID    int32 `col:"link_id"`
	FlowRow   int64 `col:"flow_row"`
	FlowID    int64 `col:"flow_id"`
	Hop       int16 `col:"hop"`
	Hops      int16 `col:"hops"`
	SizeBytes int64 `col:"size_bytes"`
}

// A localHop is what a link case needs of a hop where the speeds of the path's other links do not count.
type localHop struct {
	flowAtHop
	StartNS       int64 `col:"start_ns"`
	FirstLink     int32 `col:"first_link"`
	DelayToLinkNS int64 `col:"delay_to_link_ns"`
	PathDelayNS   int64 `col:"path_delay_ns"`
}

type hopRow struct {
	localHop
	PathSendNS    int64 `col:"path_send_ns"`
	UpstreamBps   int64 `col:"upstream_bps"`
	DownstreamBps int64 `col:"downstream_bps"`
	BetweenPS     int32 `col:"between_ps"`
}

type loadRow struct {
	LinkID int32 `col:"link_id"`
	Chunk  int32 `col:"chunk"`
	LinkLoad
}

type caseSlowdownRow struct {
	caseCell
	Flows int64 `col:"flows"`
}

type hopDelay struct {
	flowAtHop
	FCTNS   int64 `col:"fct_ns"`
	IdealNS int64 `col:"ideal_ns"`
}

type hopDelayRow struct {
	hopDelay
	WaitNS int64 `col:"wait_ns"`
}

type bucketRow struct {
	LinkID       int32     `col:"link_id"`
	Bucket       int32     `col:"bucket"`
	SizeMinBytes int64     `col:"size_min_bytes"`
	SizeMaxBytes int64     `col:"size_max_bytes"`
	N            int64     `col:"n"`
	Delays       []float64 `col:"delays"` // ns per packet
}

type contribution struct {
	FlowRow int64   `col:"flow_row"`
	Hop     int16   `col:"hop"`
	Hops    int16   `col:"hops"`
	LinkID  int32   `col:"link_id"`
	DelayNS float64 `col:"delay_ns"`
}

type contributionRow struct {
	contribution
	WaitNS    float64 `col:"wait_ns"`
	LongestNS int64   `col:"longest_wait_ns"`
}

type linkStatRow struct {
	LinkID       int32   `col:"link_id"`
	SrcNode      int32   `col:"src_node"`
	DstNode      int32   `col:"dst_node"`
	Tier         string  `col:"tier"`
	BandwidthBps int64   `col:"bandwidth_bps"`
	AvailableBps int64   `col:"available_bps"`
	Flows        int64   `col:"flows"`
	Bytes        int64   `col:"bytes"`
	Packets      int64   `col:"packets"`
	Load         float64 `col:"load"`
	linkCounters
	switchCounters
}

// linkCounters are the columns of table link_stats that come from the link's case.
type linkCounters struct {
	PacketsSent      int64   `col:"packets_sent"`
	PacketsMarked    int64   `col:"packets_marked"`
	BusyNS           int64   `col:"busy_ns"`
	MaxQueueBytes    int64   `col:"max_queue_bytes"`
	MaxQueueAtNS     int64   `col:"max_queue_at_ns"`
	MeanQueuePackets float64 `col:"mean_queue_packets"`
	MeanWaitNS       float64 `col:"mean_wait_ns"`
	FeedbackShare    float64 `col:"feedback_share"`
	Cached           bool    `col:"cached"`

	CrowdedAtNS  []float64 `col:"crowded_at_ns"`
	CrowdedBytes []float64 `col:"crowded_bytes"`
}

// switchCounters are the columns of table link_stats that only estimator WholeNetwork fills.
type switchCounters struct {
	Drops    int64 `col:"drops"`
	PausedNS int64 `col:"paused_ns"`
}

// observationRow is also a row of tables feedback and sender_feedback, which have some of its columns.
type observationRow struct {
	FlowRow  int64        `col:"flow_row"`
	Hop      int16        `col:"hop"`
	Hops     int16        `col:"hops"`
	LinkID   int32        `col:"link_id"`
	Observed columns.Item `col:"observed"`
	DelayNS  int64        `col:"delay_ns"`
}

type senderRow struct {
	FlowRow int64 `col:"flow_row"`
	FCTNS   int64 `col:"fct_ns"`
	IdealNS int64 `col:"ideal_ns"`
}

// A SlowdownRow is a row of table slowdowns, and of exact_fcts, which has some of its columns.
type SlowdownRow struct {
	FlowID  int64 `col:"flow_id"`
	FlowRow int64 `col:"flow_row"`
	Src     int32 `col:"src"`
	Dst     int32 `col:"dst"`
	workload.Labels
	SizeBytes int64   `col:"size_bytes"`
	StartNS   int64   `col:"start_ns"`
	Hops      int16   `col:"hops"`
	IdealNS   int64   `col:"ideal_ns"`
	FCTNS     int64   `col:"fct_ns"`
	WindowNS  int64   `col:"window_ns"`
	Slowdown  float64 `col:"slowdown"`

	Retransmissions int32 `col:"retransmissions"`
	Reordered       int32 `col:"reordered"`
}

type linkClassRow struct {
	LinkID   int32  `col:"link_id"`
	Class    string `col:"class"`
	Marks    int64  `col:"marks"`
	Drops    int64  `col:"drops"`
	PausedNS int64  `col:"paused_ns"`
}

type linkSlotRow struct {
	LinkID int32   `col:"link_id"`
	FromNS int64   `col:"from_ns"`
	ToNS   int64   `col:"to_ns"`
	Bytes  int64   `col:"bytes"`
	Load   float64 `col:"load"`
}

type exactHopRow struct {
	FlowRow       int64 `col:"flow_row"`
	Hop           int16 `col:"hop"`
	LinkID        int32 `col:"link_id"`
	WaitNS        int64 `col:"wait_ns"`
	LastWaitNS    int64 `col:"last_wait_ns"`
	PacketsMarked int32 `col:"packets_marked"`
}

var (
	hopTable          = columns.TableOf[hopRow](schema.Hops)
	loadTable         = columns.TableOf[loadRow](schema.LinkLoads)
	hopDelayTable     = columns.TableOf[hopDelayRow](schema.HopDelays)
	bucketTable       = columns.TableOf[bucketRow](schema.DelayBuckets)
	contributionTable = columns.TableOf[contributionRow](schema.HopContributions)
	linkClassTable    = columns.TableOf[linkClassRow](schema.LinkClasses)
	linkSlotTable     = columns.TableOf[linkSlotRow](schema.LinkSlots)
	linkStatTable     = columns.TableOf[linkStatRow](schema.LinkStats)
	hopObservations   = columns.TableOf[observationRow](schema.HopObservations)
	feedbackTable     = columns.TableOf[observationRow](schema.Feedback)
	senderTable       = columns.TableOf[senderRow](schema.SenderFCTs)
	caseSlowdownTable = columns.TableOf[caseSlowdownRow](schema.CaseSlowdowns)
	// ClusterTable writes table link_clusters.
	ClusterTable = columns.TableOf[LinkCluster](schema.LinkClusters)
	// SlowdownTable writes table slowdowns.
	SlowdownTable = columns.TableOf[SlowdownRow](schema.Slowdowns)
	exactTable    = columns.TableOf[SlowdownRow](schema.ExactFCTs)
	exactHopTable = columns.TableOf[exactHopRow](schema.ExactHops)
)
