package traffic

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"io"
	"math"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/rng"
	"parsimon/stages/workload"
)

// Streams read the files of a Divided.
type Streams struct{ Whole, Parts schema.Batches }

// Sinks get the rows of tables flows and dependencies.
type Sinks struct{ Flows, Waits schema.Sink }

// Write writes the flows of a part of a workload in start order. It closes the streams. A flow that is a part
// of a connection has an id above those of the workload, and the path of the connection. Its start does not
// depend on which part of the workload is written.
func (d *Divided) Write(ctx context.Context, in Input, seed uint64, from Streams, out Sinks) error {
	w := &writer{
		Input: in, seed: seed, nextID: d.nextID, out: out, texts: map[string]string{},
		sent: map[int64]*sentMessages{},
	}
	if in.Variation != (Variation{}) {
		w.nextID += 2 * maxFlows
	}
	w.whole.in = from.Whole
	w.parts.in = from.Parts
	err := w.write(ctx)
	d.Waits = w.waiting
	w.whole.release()
	w.parts.release()
	return errors.Join(err, from.Whole.Close(), from.Parts.Close())
}

// A part is a row of table Parts.
type part struct {
	StartNS    int64 `col:"start_ns"`
	EndNS      int64 `col:"end_ns"`
	Bytes      int64 `col:"bytes"`
	Connection int64 `col:"connection_id"`
	Src        int32 `col:"src"`
	Dst        int32 `col:"dst"`
	workload.Labels
	DSCP int16 `col:"dscp"`
	Kind int16 `col:"kind"`
}

// A writer merges the flows that stay whole with those of the open intervals.
type writer struct {
	Input
	seed   uint64
	nextID int64
	out    Sinks
	rows   []workload.Row // not written yet
	before int64          // rows that are written
	whole  cursor[workload.Row]
	parts  cursor[part]
	open   intervals
	starts int               // index of the first range of Starts that has not ended
	texts  map[string]string // labels that outlast their batch

	waits   []wait                  // not written yet
	waiting int64                   // number of waits
	sent    map[int64]*sentMessages // by connection, if messages wait for others
}

// A wait is a row of table dependencies.
type wait struct {
	Row     int64 `col:"flow_row"`
	ID      int64 `col:"flow_id"`
	After   int64 `col:"after_row"`
	AfterID int64 `col:"after_flow_id"`
	DelayNS int64 `col:"delay_ns"`
}

var waitTable = columns.TableOf[wait](schema.Dependencies)

// sentMessages are the last messages of a connection, as many as it may have at a time. at is the index of
// the first of them.
type sentMessages struct {
	rows, ids []int64
	at        int
}

// checkEvery is the number of flows after which write checks whether it was canceled. Flows that are not
// wanted fill no batch.
const checkEvery = 4096

func (w *writer) write(ctx context.Context) error {
	for n := 0; ; n++ {
		err := errors.Join(w.whole.read(), w.parts.read())
		if n%checkEvery == 0 {
			err = errors.Join(err, ctx.Err())
		}
		if err != nil {
			return err
		}
		whole := w.whole.row
		next := w.parts.row
		firstNS := int64(math.MaxInt64) // of the flows that are known
		if whole != nil {
			firstNS = whole.StartNS
		}
		if len(w.open) > 0 {
			firstNS = min(firstNS, w.open[0].atNS)
		}
		switch {
		case next != nil && next.StartNS <= firstNS:
			w.begin(next)
			w.parts.row = nil
		case whole != nil && whole.StartNS == firstNS:
			if w.wants(whole.StartNS, whole.StartNS+1) {
				row := *whole
				row.Labels = w.labels(row.Labels)
				w.rows = append(w.rows, row)
			}
			w.whole.row = nil
		case len(w.open) > 0:
			w.emit()
		default:
			return w.flush(ctx)
		}
		if len(w.rows) >= columns.BatchRows {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// labels returns labels that outlast their batch.
func (w *writer) labels(l workload.Labels) workload.Labels {
	kept := func(text string) string {
		known, ok := w.texts[text]
		if !ok {
			known = workload.Labels{Service: text}.Clone().Service
			w.texts[known] = known
		}
		return known
	}
	return workload.Labels{Service: kept(l.Service), VNet: kept(l.VNet)}
}

func (w *writer) flush(ctx context.Context) error {
	err := cmp.Or(ctx.Err(), workload.RowTable.Write(w.out.Flows, w.rows))
	if err == nil && len(w.waits) > 0 {
		err = waitTable.Write(w.out.Waits, w.waits)
	}
	w.before += int64(len(w.rows))
	w.rows = w.rows[:0]
	w.waits = w.waits[:0]
	return err
}

// begin opens an interval, unless none of its flows starts in the part of the workload.
func (w *writer) begin(p *part) {
	i := &interval{part: *p}
	i.Labels = w.labels(p.Labels)
	switch Kind(i.Kind) {
	case Messages:
		i.flows = w.messagesOf(p, i.Service)
		rule, _ := w.Rules.of(i.Service)
		i.closed = rule.Closed
	case Paced:
		i.flows = piecesOf(p, w.seed)
	default:
		i.flows = w.bulkOf(p)
	}
	if w.skips(i, p.StartNS) {
		return
	}
	more := i.next()
	for more && i.atNS < w.FromNS {
		more = i.next()
	}
	if more && i.atNS < w.ToNS {
		heap.Push(&w.open, i)
	}
}

// wants reports whether flows that start from a time to before another may be written. Calls are in the order
// of the first time.
func (w *writer) wants(fromNS, toNS int64) bool {
	if w.Starts == nil {
		return true
	}
	for w.starts < len(w.Starts) && w.Starts[w.starts][1] <= fromNS {
		w.starts++
	}
	return w.starts < len(w.Starts) && w.Starts[w.starts][0] < toNS
}

// skips skips the rest of an interval, from a time on, if none of its flows is written. Its flows keep their
// ids.
func (w *writer) skips(i *interval, fromNS int64) bool {
	inPart := i.StartNS >= w.FromNS && i.EndNS <= w.ToNS
	if !inPart || w.wants(fromNS, i.EndNS) {
		return false
	}
	w.nextID += i.flows.left()
	return true
}

// emit writes the first flow of the open intervals.
func (w *writer) emit() {
	i := w.open[0]
	if w.wants(i.atNS, i.atNS+1) {
		if i.closed {
			w.wait(i)
		}
		w.rows = append(w.rows, workload.Row{
			ID: w.nextID, Src: i.Src, Dst: i.Dst, SizeBytes: i.size, StartNS: i.atNS, Labels: i.Labels,
			Synthetic: true, DSCP: i.DSCP, Connection: i.Connection, Background: Kind(i.Kind) == Paced,
		})
	}
	w.nextID++
	if !w.skips(i, i.atNS) && i.next() && i.atNS < w.ToNS {
		heap.Fix(&w.open, 0)
		return
	}
	heap.Pop(&w.open)
}

// wait makes the next message of a connection wait for the delivery of an earlier one.
func (w *writer) wait(i *interval) {
	if w.out.Waits == nil {
		return
	}
	s := w.sent[i.Connection]
	if s == nil {
		s = &sentMessages{}
		w.sent[i.Connection] = s
	}
	row := w.before + int64(len(w.rows))
	if int64(len(s.rows)) < w.burst(i.Service) {
		s.rows = append(s.rows, row)
		s.ids = append(s.ids, w.nextID)
		return
	}
	w.waits = append(w.waits, wait{Row: row, ID: w.nextID, After: s.rows[s.at], AfterID: s.ids[s.at]})
	w.waiting++
	s.rows[s.at] = row
	s.ids[s.at] = w.nextID
	s.at = (s.at + 1) % len(s.rows)
}

// An interval is an open interval of a connection. It knows its next flow.
type interval struct {
	part
	closed bool  // messages wait for earlier ones
	atNS   int64 // start of the next flow
	size   int64 // bytes of the next flow
	flows  interface {
		// next returns the start and the size of the next flow; ok is false after the last one.
		next() (atNS, size int64, ok bool)
		// left returns the number of flows that next has not returned.
		left() int64
	}
}

func (i *interval) next() (ok bool) {
	i.atNS, i.size, ok = i.flows.next()
	return ok
}

// intervals is a heap, by the start of the next flow.
type intervals []*interval

func (h intervals) Len() int { return len(h) }

func (h intervals) Less(i, j int) bool {
	a := h[i]
	b := h[j]
	if a.atNS != b.atNS {
		return a.atNS < b.atNS
	}
	return cmp.Or(cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.StartNS, b.StartNS)) < 0
}

func (h intervals) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *intervals) Push(x any) { *h = append(*h, x.(*interval)) }

// Pop implements heap.Interface.
func (h *intervals) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}

// atNS returns the time at which a share of the interval has passed.
func (p *part) atNS(share float64) int64 {
	length := p.EndNS - p.StartNS
	return p.StartNS + min(int64(share*float64(length)), length-1)
}

// stream returns a random stream of the interval.
func (p *part) stream(seed, purpose uint64) rng.Stream {
	return rng.New(seed, rng.Traffic, uint64(p.Connection), uint64(p.StartNS), purpose)
}

// messages draws messages until they have all bytes of the interval; the last one has the rest. They begin in
// bursts. Given the number of bursts, the starts of a Poisson process are independent and uniform, and they
// are drawn in order: the first of n is the minimum of n uniform numbers.
type messages struct {
	part   *part
	bytes  int64 // of the messages to come
	count  int64 // messages to come
	burst  int64 // messages of a burst
	atOnce int64 // messages to come that begin with the one before
	share  float64
	fixed  int64 // size of all messages; 0: sizes are drawn
	sizes  *workload.SizeCDF
	size   rng.Stream
	start  rng.Stream
}

func (w *writer) messagesOf(p *part, service string) *messages {
	m := &messages{part: p.clone(), bytes: p.Bytes, sizes: w.sizes(service), burst: w.burst(service)}
	m.size = p.stream(w.seed, 0)
	m.start = p.stream(w.seed, 1)
	smallest := m.sizes.Size(0)
	if smallest == m.sizes.Size(math.Nextafter(1, 0)) {
		m.fixed = smallest
		m.count = (p.Bytes-1)/smallest + 1
		return m
	}
	draws := m.size
	for left := p.Bytes; left > 0; m.count++ {
		left -= m.sizes.Size(draws.Float64())
	}
	return m
}

func (m *messages) next() (atNS, size int64, ok bool) {
	if m.count == 0 {
		return 0, 0, false
	}
	size = m.fixed
	if size == 0 {
		size = m.sizes.Size(m.size.Float64())
	}
	size = min(m.bytes, size)
	m.bytes -= size
	if m.atOnce == 0 {
		m.atOnce = m.burst
		bursts := (m.count + m.burst - 1) / m.burst
		later := math.Pow(1-m.start.Float64(), 1/float64(bursts)) // of the time that is left
		m.share = 1 - float64((1-m.share)*later)
	}
	m.atOnce--
	m.count--
	return m.part.atNS(m.share), size, true
}

func (m *messages) left() int64 { return m.count }

// pieces divides the bytes of an interval into equal pieces at equal distances. The first one begins at a
// random time within the first distance.
type pieces struct {
	part      *part
	at, count int64
	phase     float64
}

func piecesOf(p *part, seed uint64) *pieces {
	draw := p.stream(seed, 0)
	return &pieces{part: p.clone(), count: (p.Bytes + pieceBytes - 1) / pieceBytes, phase: draw.Float64()}
}

func (x *pieces) next() (atNS, size int64, ok bool) {
	if x.at == x.count {
		return 0, 0, false
	}
	size = x.part.Bytes / x.count
	if x.at < x.part.Bytes%x.count {
		size++
	}
	atNS = x.part.atNS((float64(x.at) + x.phase) / float64(x.count))
	x.at++
	return atNS, size, true
}

func (x *pieces) left() int64 { return x.count - x.at }

// bulk is one flow. If the part of the workload begins within the interval, it begins then, with the bytes of
// the rest of the interval. The bytes after the end of the part are left out.
type bulk struct {
	atNS, size int64
	ended      bool
}

func (w *writer) bulkOf(p *part) *bulk {
	fromNS := max(p.StartNS, w.FromNS)
	toNS := min(p.EndNS, w.ToNS)
	share := float64(toNS-fromNS) / float64(p.EndNS-p.StartNS)
	return &bulk{atNS: fromNS, size: max(1, int64(math.Round(share*float64(p.Bytes))))}
}

func (b *bulk) next() (atNS, size int64, ok bool) {
	ok = !b.ended
	b.ended = true
	return b.atNS, b.size, ok
}

func (b *bulk) left() int64 {
	if b.ended {
		return 0
	}
	return 1
}

// clone returns a copy that outlasts the batch, without labels.
func (p *part) clone() *part {
	c := *p
	c.Labels = workload.Labels{}
	return &c
}

// A cursor reads rows one at a time.
type cursor[T any] struct {
	in    schema.Batches
	rows  []T
	batch arrow.Record // of rows; nil: none
	at    int
	row   *T // the current row, or nil if it is used up
	ended bool
}

// read makes row the next row, unless it is in use or all rows are read.
func (c *cursor[T]) read() error {
	if c.row != nil || c.ended {
		return nil
	}
	for c.at == len(c.rows) {
		c.release()
		rows, rec, err := columns.Next(c.in, c.rows)
		if errors.Is(err, io.EOF) {
			c.ended = true
			return nil
		}
		if err != nil {
			return err
		}
		c.rows = rows
		c.batch = rec
		c.at = 0
	}
	c.row = &c.rows[c.at]
	c.at++
	return nil
}

func (c *cursor[T]) release() {
	if c.batch != nil {
		c.batch.Release()
		c.batch = nil
	}
}
