// Package tables has the rows of tables that several parts of the method write or read, tables in memory, and
// the order in which rows are written.
//
// A row type that only one part uses is declared in that part. Package schema documents columns, units and
// keys.
package tables

import (
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/workload"
)

// FlowAtHop has the columns of table hops that identify a flow at a hop of its path.
type FlowAtHop struct {
	LinkID    int32 `col:"link_id"`
	FlowRow   int64 `col:"flow_row"`
	FlowID    int64 `col:"flow_id"`
	Hop       int16 `col:"hop"`
	Hops      int16 `col:"hops"`
	SizeBytes int64 `col:"size_bytes"`
}

// LocalHop has the columns of table hops that a link case needs if the speeds of the path's other links do
// not matter.
type LocalHop struct {
	FlowAtHop
	StartNS       int64 `col:"start_ns"`
	FirstLink     int32 `col:"first_link"`
	DelayToLinkNS int64 `col:"delay_to_link_ns"`
	PathDelayNS   int64 `col:"path_delay_ns"`
}

// Hop is a row of table hops.
type Hop struct {
	LocalHop
	HopPath
}

// HopPath has the columns of table hops about the path of a flow that only some link cases need.
type HopPath struct {
	PathSendNS    int64 `col:"path_send_ns"`
	UpstreamBps   int64 `col:"upstream_bps"`
	DownstreamBps int64 `col:"downstream_bps"`
	BetweenPS     int32 `col:"between_ps"`
}

// FlowPath is a row of table flow_paths.
type FlowPath struct {
	FlowRow     int64 `col:"flow_row"`
	FirstLink   int32 `col:"first_link"`
	Hops        int16 `col:"hops"`
	SlowestHop  int16 `col:"slowest_hop"`
	IdealNS     int64 `col:"ideal_ns"`
	WindowNS    int64 `col:"window_ns"`
	RoundTripNS int64 `col:"round_trip_ns"`
}

// Contribution has the columns of table hop_contributions except for the waits, which the delay includes.
type Contribution struct {
	FlowRow int64   `col:"flow_row"`
	Hop     int16   `col:"hop"`
	Hops    int16   `col:"hops"`
	LinkID  int32   `col:"link_id"`
	DelayNS float64 `col:"delay_ns"`
}

// ContributionRow is a row of table hop_contributions.
type ContributionRow struct {
	Contribution
	WaitNS      float64 `col:"wait_ns"`
	LongestNS   int64   `col:"longest_wait_ns"`
	CaseDelayNS int64   `col:"case_delay_ns"`
}

// AppendContribution appends a row, unless it adds nothing: table hop_contributions has no such rows.
func AppendContribution(rows []ContributionRow, r ContributionRow) []ContributionRow {
	if r.DelayNS == 0 && r.WaitNS == 0 && r.LongestNS == 0 && r.CaseDelayNS == 0 {
		return rows
	}
	return append(rows, r)
}

// LinkStat is a row of table link_stats.
type LinkStat struct {
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
	LinkCounters
	SwitchCounters
}

// LinkCounters has the columns of table link_stats that a simulation of the link computes.
type LinkCounters struct {
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

// SwitchCounters has the columns of table link_stats that only a simulation of the whole network computes.
type SwitchCounters struct {
	Drops    int64 `col:"drops"`
	PausedNS int64 `col:"paused_ns"`
}

// Observation is a row of table hop_observations. Tables feedback and sender_feedback have some of its
// columns. Observed is the index of the row's blocks in an Arena.
type Observation struct {
	FlowRow  int64        `col:"flow_row"`
	Hop      int16        `col:"hop"`
	Hops     int16        `col:"hops"`
	LinkID   int32        `col:"link_id"`
	Observed columns.Item `col:"observed"`
	DelayNS  int64        `col:"delay_ns"`
}

// SenderFCT is a row of table sender_fcts.
type SenderFCT struct {
	FlowRow int64 `col:"flow_row"`
	FCTNS   int64 `col:"fct_ns"`
	IdealNS int64 `col:"ideal_ns"`
}

// SlowdownRow is a row of table slowdowns. Table exact_fcts has some of its columns.
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

// The tables that several parts of the method write.
var (
	Hops             = columns.TableOf[Hop](schema.Hops)
	FlowPaths        = columns.TableOf[FlowPath](schema.FlowPaths)
	HopContributions = columns.TableOf[ContributionRow](schema.HopContributions)
	HopObservations  = columns.TableOf[Observation](schema.HopObservations)
	LinkStats        = columns.TableOf[LinkStat](schema.LinkStats)
	SenderFCTs       = columns.TableOf[SenderFCT](schema.SenderFCTs)
	Slowdowns        = columns.TableOf[SlowdownRow](schema.Slowdowns)
)

// SmallBatch is the number of flows or hops that are read or written at a time. So few rows are still in the
// processor's second-level cache when the next step or the sink reads them.
const SmallBatch = 2_048
