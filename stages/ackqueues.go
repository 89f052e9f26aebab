package stages

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
	"parsimon/stages/topology"
)

// LinkQueues says how long the queues of links are over time, for transports whose ACKs wait in them
// (simkernel.Transport.AcksQueue). It is the mean of the last two passes that simulated a link: ACKs that wait longer
// make senders slower and so the queues of the next pass shorter, which with the last pass alone swing between two
// states where both directions of cables are busy.
type LinkQueues struct {
	links [][]queueTimeline // by link id; at most two
}

// A queueTimeline is what a byte would wait at a link at times fromNS + step × linkcase.QueueStepNS; nothing at
// others.
type queueTimeline struct {
	fromNS int64
	steps  []int64 // ascending
	waits  []int64 // in ns
}

// ReadLinkQueues reads table link_queues of some passes, the newest first.
func ReadLinkQueues(n *topology.Network, passes ...schema.Batches) (*LinkQueues, error) {
	q := &LinkQueues{links: make([][]queueTimeline, len(n.Links))}
	var now []int32 // by link id: the place of the timeline that is being read, plus 1
	for _, in := range passes {
		now = resize(now, len(n.Links))
		clear(now)
		err := columns.ForEach(in, func(rec arrow.Record) error {
			link, at, wait := columns.Int32s(rec, "link_id"), columns.Int64s(rec, "at_ns"), columns.Int64s(rec, "wait_ns")
			for i, id := range link {
				if id < 0 || int(id) >= len(q.links) {
					return fmt.Errorf("link_queues: link %d is not in the topology, which has %d links", id, len(q.links))
				}
				if now[id] == 0 {
					q.links[id] = append(q.links[id], queueTimeline{fromNS: at[i]})
					now[id] = int32(len(q.links[id]))
				}
				if now[id] > 2 {
					continue
				}
				if err := q.links[id][now[id]-1].append(at[i], wait[i]); err != nil {
					return fmt.Errorf("link_queues: link %d: %w", id, err)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for id, of := range q.links {
		q.links[id] = of[:min(2, len(of))]
	}
	return q, nil
}

func (t *queueTimeline) append(atNS, waitNS int64) error {
	step := (atNS - t.fromNS) / linkcase.QueueStepNS
	if n := len(t.steps); waitNS < 0 || step < 0 || n > 0 && step <= t.steps[n-1] {
		return fmt.Errorf("a wait of %d ns at %d ns, after %d samples", waitNS, atNS, n)
	}
	t.steps, t.waits = append(t.steps, step), append(t.waits, waitNS)
	return nil
}

// waitNS is what a byte would wait at a time, between samples by interpolation.
func (t *queueTimeline) waitNS(atNS int64) int64 {
	since := atNS - t.fromNS
	if since < 0 {
		return 0
	}
	step, rest := since/linkcase.QueueStepNS, since%linkcase.QueueStepNS
	i, found := slices.BinarySearch(t.steps, step)
	var before, after int64
	if found {
		before = t.waits[i]
		i++
	}
	if i < len(t.steps) && t.steps[i] == step+1 {
		after = t.waits[i]
	}
	return before + (after-before)*rest/linkcase.QueueStepNS
}

// waitNS is what something that comes at a link's switch at that time waits.
func (q *LinkQueues) waitNS(link int32, atNS int64) int64 {
	of := q.links[link]
	if len(of) == 0 {
		return 0
	}
	sum := int64(0)
	for i := range of {
		sum += of[i].waitNS(atNS)
	}
	return sum / int64(len(of))
}

// UseQueues makes Build give flows what their ACKs wait in the queues of switches. Links that are not simulated have
// the queues of their representatives.
func (x *FeedbackBuilder) UseQueues(q *LinkQueues) { x.queues = q }

// FlowStartColumns names the columns of table flows that ReadStarts reads.
func FlowStartColumns() []string { return []string{"start_ns"} }

// ReadStarts reads the chunk of table flows that Build is called for next. UseQueues needs it.
func (x *FeedbackBuilder) ReadStarts(flows schema.Batches) error {
	x.startNS = x.startNS[:0]
	return columns.ForEach(flows, func(rec arrow.Record) error {
		x.startNS = append(x.startNS, columns.Int64s(rec, "start_ns")...)
		return nil
	})
}

// queueAcks sets x.ackHints, by block, to what the ACKs of the packets of flow f of the chunk wait at switches. When a
// packet leaves its host is taken from the case behind its host's where the flow's packets wait longest.
func (x *FeedbackBuilder) queueAcks(f int) error {
	x.ackHints = x.ackHints[:0]
	if x.queues == nil {
		return nil
	}
	if f >= len(x.startNS) {
		return fmt.Errorf("flows: the chunk has %d flows, of which row %d is observed", len(x.startNS), f)
	}
	longest := slices.MaxFunc(x.hops[min(1, len(x.hops)-1):], compareWaits)
	if !hasTimes(longest) {
		return nil
	}
	p := x.params
	wayNS := int64(0)
	for _, id := range x.path {
		wayNS += x.net.Links[id].DelayNS + p.SendNS(p.PayloadBytes+p.HeaderBytes, x.net.Links[id].BandwidthBps)
	}
	for b := range longest {
		atNS := x.startNS[f] + (x.layout.Centre(longest, b)-1)*simkernel.SentUnitNS + wayNS
		for _, blocks := range x.hops[1:] {
			if b < len(blocks) {
				atNS += int64(blocks[b].WaitNS)
			}
		}
		x.ackHints = append(x.ackHints, simkernel.AckWaitHint(x.ackWaitAt(atNS)))
	}
	return nil
}

// ackWaitAt returns what an ACK of the current path waits at switches that leaves its host at a time. Hosts have
// priority for ACKs.
func (x *FeedbackBuilder) ackWaitAt(atNS int64) (waitNS int64) {
	for h := len(x.path) - 1; h >= 0; h-- {
		back := topology.Reverse(x.path[h])
		if !x.net.FromHost(back) {
			if isImputed(x.of, back) {
				back = x.of[back]
			}
			wait := x.queues.waitNS(back, atNS)
			waitNS += wait
			atNS += wait
		}
		atNS += x.net.Links[back].DelayNS
	}
	return waitNS
}

// compareWaits compares what packets wait at two hops. Blocks without times are less than any with.
func compareWaits(a, b []simkernel.Block) int {
	if ta, tb := hasTimes(a), hasTimes(b); ta != tb {
		if ta {
			return 1
		}
		return -1
	}
	return cmp.Compare(waitsOf(a), waitsOf(b))
}

func waitsOf(blocks []simkernel.Block) (ns int64) {
	for i := range blocks {
		ns += int64(blocks[i].WaitNS)
	}
	return ns
}

// hint returns the hint of block b of the feedback: what ACKs wait, or else that of the observations.
func (x *FeedbackBuilder) hint(b int, observed uint16) uint16 {
	if b < len(x.ackHints) {
		return x.ackHints[b]
	}
	return observed
}

// queueRows are rows of table link_queues.
type queueRows struct {
	link         []int32
	atNS, waitNS []int64
}

// add appends the queue of the current case, after a row of its first start.
func (w *queueRows) add(s *Simulator, link topology.Link) {
	if len(s.c.StartNS) == 0 || s.c.Kind == linkcase.FirstHop {
		return
	}
	from := s.c.StartNS[0]
	w.append(link.ID, from, 0)
	for _, q := range s.result.Queue {
		w.append(link.ID, from+q.Step*linkcase.QueueStepNS, q.WaitNS)
	}
}

func (w *queueRows) append(link int32, atNS, waitNS int64) {
	w.link, w.atNS, w.waitNS = append(w.link, link), append(w.atNS, atNS), append(w.waitNS, waitNS)
}

// flush writes the rows.
func (w *queueRows) flush(out schema.Sink) error {
	for from := 0; from < len(w.link); from += columns.BatchRows {
		to := min(len(w.link), from+columns.BatchRows)
		if err := columns.Write(out, schema.LinkQueues, to-from, columns.Of(w.link[from:to]), columns.Of(w.atNS[from:to]),
			columns.Of(w.waitNS[from:to])); err != nil {
			return err
		}
	}
	w.link, w.atNS, w.waitNS = w.link[:0], w.atNS[:0], w.waitNS[:0]
	return nil
}
