package network

import (
	"errors"
	"fmt"
	"slices"

	"parsimon/schema/together"
	"parsimon/simkernel"
)

// Flows is a chunk of the workload, one row per flow, in start order within and across chunks. The links of
// flow i's path are PathLinks[PathEnds[i-1]:PathEnds[i]] (from 0 for the first flow), from the source's
// uplink to the link that ends at the destination. A Network neither keeps nor changes a chunk.
type Flows struct {
	SizeBytes []int64
	StartNS   []int64
	PathEnds  []int32
	PathLinks []int32
	Key       []uint64 // identifies the flow in random marks, together with Params.Seed; nil: its row
	Class     []uint8  // index of the classes of Classify; nil: 0
	Tag       []int32  // for the caller, in Results; nil: 0

	// With Network.WaitFor, flow i starts DelayNS[k] after the delivery of the flow in row After[k] of the
	// workload, for each k in AfterEnds[i-1]:AfterEnds[i], and not before StartNS. If AfterEnds is nil, no
	// flow depends on others. A flow of 0 bytes without a path is a compute step. No flow of this chunk or a
	// later one depends on a row below KeepRow. None starts before a flow in row HeldBy or a later one has
	// ended, so the chunk need not be read before that. 0 is correct for both.
	After, DelayNS  []int64
	AfterEnds       []int32
	KeepRow, HeldBy int64
}

// A newFlow is a checked row of the workload.
type newFlow struct {
	row       int64
	startPS   int64
	size      int64
	idealNS   int64
	key       uint64
	timeoutPS int64 // with recovery
	lowPS     int64 // with IRN
	nackPS    int64 // with recovery: from one NACK for a packet to the next
	limits    simkernel.Limits
	path      []int32 // empty: a compute step
	class     int32
	tag       int32
	after     []after
	waits     int // number of flows that it waits for, once it is read
}

// A batch is a checked chunk of the workload. A batch with err or last is the last one.
type batch struct {
	flows []newFlow
	err   error
	last  bool

	keepRow, heldBy int64
}

// ends reports whether there is no batch after it.
func (b *batch) ends() bool { return b.err != nil || b.last }

// batchesAhead is the number of batches that the feed prepares ahead of the simulation.
const batchesAhead = 3

// A feed reads and checks the workload in parallel with the simulation.
type feed struct {
	net     *Network
	rows    int64
	lastNS  int64
	ideal   simkernel.IdealPath
	batches chan *batch
}

// run sends batches until the workload ends, a row is invalid, or stop is closed.
func (f *feed) run(stop <-chan struct{}) {
	for {
		b := f.nextOrFault()
		select {
		case f.batches <- b:
		case <-stop:
			return
		}
		if b.ends() {
			return
		}
	}
}

// nextOrFault is next for a separate goroutine: a panic becomes an error.
func (f *feed) nextOrFault() (b *batch) {
	fault := together.Catch(func() { b = f.next() })
	if fault != nil {
		return &batch{err: fault, last: true}
	}
	return b
}

func (f *feed) next() *batch {
	c, err := f.net.more()
	if err != nil || c == nil {
		return &batch{err: err, last: true}
	}
	rows := len(c.StartNS)
	if rows != len(c.SizeBytes) || rows != len(c.PathEnds) || c.Key != nil && rows != len(c.Key) ||
		c.Class != nil && rows != len(c.Class) || c.Tag != nil && rows != len(c.Tag) ||
		c.AfterEnds != nil && rows != len(c.AfterEnds) {
		return &batch{err: fmt.Errorf("flow columns differ in length: %d starts, %d sizes, %d paths", rows,
			len(c.SizeBytes), len(c.PathEnds))}
	}
	b := &batch{flows: make([]newFlow, 0, rows), keepRow: c.KeepRow, heldBy: min(c.HeldBy, f.rows-1)}
	links := slices.Clone(c.PathLinks)
	for i := range rows {
		if err := f.add(b, c, links, i); err != nil {
			b.err = fmt.Errorf("flow row %d: %w", f.rows, err)
			return b
		}
	}
	return b
}

// add checks row i of a chunk, which must be the next flow, and appends it to the batch. links are those of
// the paths of the chunk.
func (f *feed) add(b *batch, c *Flows, links []int32, i int) error {
	n := f.net
	startNS := c.StartNS[i]
	switch {
	case startNS < 0 || startNS > MaxNS:
		return fmt.Errorf("start_ns is %d, must be 0 to 13 days", startNS)
	case startNS < f.lastNS:
		return fmt.Errorf("start_ns is %d, before the flow above it (%d)", startNS, f.lastNS)
	}
	path, err := pathOf(c, links, i)
	if err != nil {
		return err
	}
	flow := newFlow{row: f.rows, startPS: startNS * simkernel.PSPerNS, key: uint64(f.rows)}
	if c.SizeBytes[i] > 0 || len(path) > 0 || n.frontier == nil { // else it is a compute step
		if err := f.setPath(&flow, path, c.SizeBytes[i]); err != nil {
			return err
		}
	}
	if c.Key != nil {
		flow.key = c.Key[i]
	}
	if c.Class != nil && len(path) > 0 {
		flow.class = int32(c.Class[i])
		if int(flow.class) >= max(1, len(n.classes)) {
			return fmt.Errorf("its class is %d, of %d", flow.class, len(n.classes))
		}
	}
	return f.append(b, c, i, flow)
}

// pathOf returns the path of row i of a chunk.
func pathOf(c *Flows, links []int32, i int) ([]int32, error) {
	begin := int32(0)
	if i > 0 {
		begin = c.PathEnds[i-1]
	}
	end := c.PathEnds[i]
	if begin < 0 || begin > end || int(end) > len(links) {
		return nil, fmt.Errorf("its path is rows %d to %d of %d", begin, end, len(links))
	}
	return links[begin:end], nil
}

// setPath checks the path and the size of a flow, and sets the values that follow from them.
func (f *feed) setPath(flow *newFlow, path []int32, size int64) error {
	n := f.net
	if err := n.checkPath(path); err != nil {
		return err
	}
	slowest := n.links[path[0]].BandwidthBps
	f.ideal.Reset(&n.params)
	for _, l := range path {
		slowest = min(slowest, n.links[l].BandwidthBps)
		f.ideal.Add(n.links[l].BandwidthBps, n.links[l].DelayNS)
	}
	wire := float64(size) * (1 + float64(n.params.HeaderBytes)/float64(n.params.PayloadBytes))
	if size < 1 || wire*8e12/float64(slowest) > horizonPS/2 {
		return fmt.Errorf("size_bytes is %d, must be above 0 and take under 13 days at %d bps", size, slowest)
	}
	flow.path = path
	flow.size = size
	flow.idealNS = f.ideal.FCTNS(size)
	flow.limits = n.params.Limits(float64(n.links[path[0]].BandwidthBps), f.ideal.Path())
	roundTripNS := f.ideal.Path().RoundTripNS
	if n.traits.AckClocked { // the timeout before the first sample
		flow.limits.RoundTripNS = roundTripNS
	}
	if n.recovery != nil {
		return n.recovery.prepare(flow, roundTripNS)
	}
	return nil
}

// append appends a checked row to the batch.
func (f *feed) append(b *batch, c *Flows, i int, flow newFlow) error {
	if err := f.addAfter(c, i, &flow); err != nil {
		return err
	}
	if c.Tag != nil {
		flow.tag = c.Tag[i]
	}
	b.flows = append(b.flows, flow)
	f.rows++
	f.lastNS = c.StartNS[i]
	return nil
}

// addAfter checks the dependencies of row i of a chunk, and adds them to the flow.
func (f *feed) addAfter(c *Flows, i int, flow *newFlow) error {
	if c.AfterEnds == nil {
		return nil
	}
	begin := int32(0)
	end := c.AfterEnds[i]
	if i > 0 {
		begin = c.AfterEnds[i-1]
	}
	if f.net.frontier == nil || begin < 0 || begin > end || int(end) > min(len(c.After), len(c.DelayNS)) {
		return errors.New("a flow waits for others in a network that was not prepared for it, or out of range")
	}
	for k := begin; k < end; k++ {
		if c.After[k] < 0 || c.After[k] == f.rows || c.DelayNS[k] < 0 || c.DelayNS[k] > MaxNS {
			return fmt.Errorf("it waits for flow row %d and then for %d ns", c.After[k], c.DelayNS[k])
		}
		flow.after = append(flow.after, after{c.After[k], c.DelayNS[k] * simkernel.PSPerNS})
	}
	return nil
}

var errPathEmpty = errors.New("the path is empty")

// MaxHops is the maximum number of links of a path in a Network. It limits the memory per flow.
const MaxHops = 250

// checkPath checks that a path leads from a host over adjacent links and switches to a host.
func (n *Network) checkPath(path []int32) error {
	if len(path) == 0 {
		return errPathEmpty
	}
	if len(path) > MaxHops {
		return fmt.Errorf("the path has %d hops, at most %d can be simulated", len(path), MaxHops)
	}
	for i, l := range path {
		if l < 0 || int(l) >= len(n.links) {
			return fmt.Errorf("hop %d is link %d, links are 0 to %d", i, l, len(n.links)-1)
		}
		link := n.links[l]
		if i == 0 && !n.host[link.SrcNode] {
			return fmt.Errorf("the path starts at node %d, which is not a host", link.SrcNode)
		}
		if i > 0 && n.links[path[i-1]].DstNode != link.SrcNode {
			return fmt.Errorf("hop %d starts at node %d, but hop %d ends at node %d", i, link.SrcNode, i-1,
				n.links[path[i-1]].DstNode)
		}
		last := i == len(path)-1
		if n.host[link.DstNode] != last {
			if last {
				return fmt.Errorf("the path ends at node %d, which is not a host", link.DstNode)
			}
			return fmt.Errorf("hop %d ends at host %d before the path does: hosts do not forward", i, link.DstNode)
		}
	}
	return nil
}
