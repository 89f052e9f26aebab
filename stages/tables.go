package stages

import (
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
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

type hopRow struct {
	flowAtHop
	StartNS       int64 `col:"start_ns"`
	FirstLink     int32 `col:"first_link"`
	DelayToLinkNS int64 `col:"delay_to_link_ns"`
	PathDelayNS   int64 `col:"path_delay_ns"`
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
	CrowdedNS        int64   `col:"crowded_ns"`
	Cached           bool    `col:"cached"`
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
	FlowID    int64   `col:"flow_id"`
	FlowRow   int64   `col:"flow_row"`
	Src       int32   `col:"src"`
	Dst       int32   `col:"dst"`
	Service   string  `col:"service"`
	VNet      string  `col:"vnet"`
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

// stat returns the row of a link in table link_stats; counters are zero for a link without flows.
func (l *Loads) stat(p *simkernel.Params, link topology.Link, counters linkCounters) linkStatRow {
	x := &l.Links[link.ID]
	return linkStatRow{link.ID, link.Src, link.Dst, link.Tier, link.BandwidthBps, l.AvailableBps(p, link), x.Flows,
		x.Bytes, x.Packets, l.Load(link), counters, switchCounters{}}
}

func (s *sorter) writeByFlow(out schema.Sink, rows []contributionRow) error {
	places := s.byFlow(len(rows), func(i int) (int64, int16) { return rows[i].FlowRow, rows[i].Hop })
	return contributionTable.WriteOrdered(out, rows, places, nil)
}

func (s *Simulator) addDelays(rows []int32, out schema.Sink) error {
	r, res := s.input.rows, &s.result
	for k, i := range rows {
		s.delays = append(s.delays, hopDelayRow{hopDelay{r[i].flowAtHop, res.FCTNS[k], s.idealNS(k, i)}, res.WaitNS[k]})
	}
	if len(s.delays) < columns.BatchRows {
		return nil
	}
	return s.flushDelays(out)
}

func (s *Simulator) flushDelays(out schema.Sink) error {
	err := hopDelayTable.Write(out, s.delays)
	s.delays = s.delays[:0]
	return err
}

func (s *Simulator) counters(cached bool) linkCounters {
	c := &s.result.Counters
	return linkCounters{
		c.PacketsSent, c.PacketsMarked, c.BusyNS, c.MaxQueueBytes, c.MaxQueueAtNS,
		// Little's law: the sum of waits is the number of waiting packets, integrated over time.
		float64(c.WaitSumNS) / float64(max(1, c.BusyNS)),
		float64(c.WaitSumNS) / float64(max(1, c.PacketsSent)), s.share, c.CrowdedNS, cached,
	}
}

type observationRows struct {
	rows     []observationRow
	observed columns.Arena // of the rows, in their order
	sorter   sorter
}

func (w *observationRows) reset() {
	w.observed.Reset()
	w.rows = w.rows[:0]
}

func (w *observationRows) add(s *Simulator, link int32, rows []int32) {
	in := s.input.rows
	w.observed.AddArena(&s.observed)
	for k, i := range rows {
		w.rows = append(w.rows, observationRow{in[i].FlowRow, in[i].Hop, in[i].Hops, link, columns.Item(len(w.rows)),
			s.result.FCTNS[k] - s.result.IdealNS[k]})
	}
}

func (w *observationRows) flush(out schema.Sink) error {
	places := w.sorter.byFlow(len(w.rows), func(i int) (int64, int16) { return w.rows[i].FlowRow, w.rows[i].Hop })
	return hopObservations.WriteOrdered(out, w.rows, places, &w.observed)
}

// addFeedback appends the feedback of a flow at a hop, unless all blocks are zero. A reader takes a missing row as zero
// blocks.
func (w *observationRows) addFeedback(link int32, row int64, hop int16, blocks []simkernel.Block) {
	before := len(w.observed.Bytes)
	w.observed.Bytes = appendBlocks(w.observed.Bytes, blocks)
	if len(w.observed.Bytes) == before {
		return
	}
	w.observed.Done()
	w.rows = append(w.rows, observationRow{FlowRow: row, Hop: hop, LinkID: link, Observed: columns.Item(len(w.rows))})
}

// sorter sorts row numbers by integer keys, stably, in reused memory: a radix sort, least significant digit first, 11
// bits at a time. For the millions of rows of a partition it is several times faster than sorting by comparison.
type sorter struct {
	keys, otherKeys []uint64
	rows, otherRows []int32
}

const (
	digitBits = 11
	digits    = 1 << digitBits
)

// order returns the row numbers 0 to n-1 in ascending order of key, equal keys in row order. The result is
// valid until the next call.
func (s *sorter) order(n int, key func(row int) uint64) []int32 {
	s.keys, s.otherKeys = resize(s.keys, n), resize(s.otherKeys, n)
	s.rows, s.otherRows = resize(s.rows, n), resize(s.otherRows, n)
	var all uint64
	for i := range n {
		k := key(i)
		s.keys[i], s.rows[i] = k, int32(i)
		all |= k
	}
	for shift := 0; all>>shift != 0; shift += digitBits {
		var count [digits]int32
		for _, k := range s.keys {
			count[k>>shift&(digits-1)]++
		}
		at := int32(0)
		for d, c := range count {
			count[d] = at
			at += c
		}
		for i, k := range s.keys {
			to := &count[k>>shift&(digits-1)]
			s.otherKeys[*to], s.otherRows[*to] = k, s.rows[i]
			*to++
		}
		s.keys, s.otherKeys = s.otherKeys, s.keys
		s.rows, s.otherRows = s.otherRows, s.rows
	}
	return s.rows
}

// byFlow returns the row numbers 0 to n-1 in ascending order of flow row and hop. The result is valid until the next
// call.
func (s *sorter) byFlow(n int, of func(i int) (flowRow int64, hop int16)) []int32 {
	var least int64
	for i := range n {
		if row, _ := of(i); i == 0 || row < least {
			least = row
		}
	}
	return s.order(n, func(i int) uint64 {
		row, hop := of(i)
		return uint64(row-least)<<10 | uint64(hop)
	})
}

// resize returns a slice of length n with unspecified contents, in the memory of s if it is large enough.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
