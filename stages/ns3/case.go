package ns3

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"parsimon/simkernel"
)

// A link case in the files of the public HPCC simulator: topology, flows and configuration. The network
// is the paper's (§3.2, figure 4): the sources, each with a link of its own, the target, and behind it
// the destinations, over links so fast that nothing queues there. Destinations that are equally far are
// one node: behind the target nothing can tell them apart.
//
//	source 0 ─┐
//	source 1 ─┤ switch ── target ── switch ─┬─ 10 × ── destination 0
//	…         ┘                             └─ 10 × ── destination 1
//
// If the target is the source's own link, it stands in the source link's place; if it is the last link,
// it ends at the destination.

// Files of a case, in a directory of its own, which the program runs in.
const (
	configFile  = "config.txt"
	ns3Topology = "topology.txt"
	ns3Flows    = "flows.txt"
	ns3Trace    = "trace.txt" // nodes whose packets are to be traced: none
	fctFile     = "fct.txt"
	ns3PFC      = "pfc.txt" // when links were paused
)

const (
	ns3Faster      = 10   // how much faster links behind the target are (paper, §3.2)
	ns3Header      = 48   // bytes of the simulator's headers, without time stamp or telemetry
	ns3Ports       = 250  // of a switch: its tables have 257 places
	ns3BufferMB    = 1000 // of a switch: out of reach, so that nobody is paused, as in the link kernel
	ns3LargestSize = math.MaxUint32
)

// An ns3Link is a cable.
type cable struct {
	a, b         int
	bps, delayNS int64
}

// An ns3Case is a link case as the simulator wants it.
type netCase struct {
	c        *simkernel.Case
	p        *simkernel.Params
	config   []byte
	nodes    int
	switches []int
	links    []cable
	target   cable
	onward   bool  // there are links behind the target
	sources  []int // by source: its node
	sinks    []int // by flow: its destination
}

func (n *netCase) node() int {
	n.nodes++
	return n.nodes - 1
}

func (n *netCase) newSwitch() int {
	n.switches = append(n.switches, n.node())
	return n.nodes - 1
}

func (n *netCase) cable(l cable) cable {
	n.links = append(n.links, l)
	return l
}

// newNS3Case lays out the network of a case, whose target has that propagation delay.
func newNetCase(c *simkernel.Case, targetDelayNS int64, p *simkernel.Params) (*netCase, error) {
	for i, size := range c.SizeBytes {
		if size > ns3LargestSize {
			return nil, fmt.Errorf("flow row %d of the case has %d bytes: ns-3 counts up to %d", i, size, int64(ns3LargestSize))
		}
	}
	n := &netCase{c: c, p: p}
	for range c.SourceBps {
		n.sources = append(n.sources, n.node())
	}
	if c.Kind == simkernel.FirstHop {
		n.onward = true
		n.target = n.cable(cable{n.sources[0], n.newSwitch(), c.SourceBps[0], targetDelayNS})
	} else {
		if len(c.SourceBps) >= ns3Ports {
			return nil, fmt.Errorf("ns-3's switches have %d ports, the case has %d sources", ns3Ports, len(c.SourceBps))
		}
		joint := n.newSwitch()
		for s, node := range n.sources {
			n.cable(cable{node, joint, c.SourceBps[s], c.SourceDelayNS[s]})
		}
		n.target = cable{joint, 0, c.TargetBps, targetDelayNS}
		for i := range c.Source {
			n.onward = n.onward || n.behindNS(i) > 0
		}
		if n.onward {
			n.target.b = n.newSwitch()
		} else {
			n.target.b = n.node()
		}
		n.cable(n.target)
	}
	if err := n.addSinks(); err != nil {
		return nil, err
	}
	var err error
	n.config, err = n.configuration()
	return n, err
}

// behindNS is the propagation of a flow's path behind the target.
func (n *netCase) behindNS(flow int) int64 {
	return max(0, n.c.PathDelayNS[flow]-n.c.SourceDelayNS[n.c.Source[flow]]-n.target.delayNS)
}

// addSinks adds the destinations.
func (n *netCase) addSinks() error {
	at := map[int64]int{} // by delay
	for i := range n.c.Source {
		if !n.onward {
			n.sinks = append(n.sinks, n.target.b)
			continue
		}
		delayNS := n.behindNS(i)
		sink, ok := at[delayNS]
		if !ok {
			if len(at) >= ns3Ports {
				return fmt.Errorf("ns-3's switches have %d ports, and the paths of the case have more delays than that behind it", ns3Ports)
			}
			sink = n.node()
			at[delayNS] = sink
			n.cable(cable{n.target.b, sink, ns3Faster * n.target.bps, delayNS})
		}
		n.sinks = append(n.sinks, sink)
	}
	return nil
}

// write writes the files.
func (n *netCase) write(dir string) error {
	var topology, flows bytes.Buffer
	fmt.Fprintf(&topology, "%d %d %d\n", n.nodes, len(n.switches), len(n.links))
	for _, s := range n.switches {
		fmt.Fprintf(&topology, "%d ", s)
	}
	topology.WriteByte('\n')
	for _, l := range n.links {
		fmt.Fprintf(&topology, "%d %d %dbps %dns 0\n", l.a, l.b, l.bps, l.delayNS)
	}
	c := n.c
	fmt.Fprintf(&flows, "%d\n", len(c.StartNS))
	for i, start := range c.StartNS {
		// The simulator cuts times to whole ns: half of one more, or some lose theirs.
		ns := start - c.StartNS[0]
		fmt.Fprintf(&flows, "%d %d %d 3 100 %d %d.%09d5\n", i, n.sources[c.Source[i]], n.sinks[i], c.SizeBytes[i], ns/1e9, ns%1e9)
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{ns3Topology, topology.Bytes()}, {ns3Flows, flows.Bytes()}, {ns3Trace, []byte("0\n")}, {configFile, n.config}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read reads the FCTs: flow, addresses and ports, size, start, FCT, and an ideal of the simulator's own,
// which is not ours.
func (n *netCase) read(dir string, r *simkernel.Result) error {
	text, err := os.ReadFile(filepath.Join(dir, fctFile))
	if err != nil {
		return fmt.Errorf("ns-3: %w", err)
	}
	for i := range r.FCTNS {
		r.FCTNS[i] = -1
	}
	n.ideals(r)
	for line, fields := range lines(text) {
		bad := func(what string) error { return fmt.Errorf("ns-3's answer, line %d: %s", line+1, what) }
		if len(fields) < 8 {
			return bad(fmt.Sprintf("%d fields, want 9", len(fields)))
		}
		row, err := strconv.Atoi(string(fields[0]))
		if err != nil || row < 0 || row >= len(r.FCTNS) || r.FCTNS[row] >= 0 {
			return bad(fmt.Sprintf("flow %q is not one of the %d asked for, or is there twice", fields[0], len(r.FCTNS)))
		}
		fct, err := strconv.ParseInt(string(fields[7]), 10, 64)
		if err != nil || fct <= 0 {
			return bad(fmt.Sprintf("FCT %q", fields[7]))
		}
		// Where a time comes out whole, the simulator can lose a ns of it at every packet.
		ideal := r.IdealNS[row]
		if slack := 2*n.p.Packets(n.c.SizeBytes[row]) + 20; fct < ideal-slack {
			return bad(fmt.Sprintf("FCT %d ns, but alone the flow needs %d: it is not this case that was simulated", fct, ideal))
		}
		r.FCTNS[row] = max(fct, ideal)
	}
	if i := slices.Index(r.FCTNS, -1); i >= 0 {
		return fmt.Errorf("ns-3 does not answer for flow row %d of the case", i)
	}
	pauses, err := os.ReadFile(filepath.Join(dir, ns3PFC))
	if err == nil && len(bytes.TrimSpace(pauses)) > 0 {
		err = errors.New("ns-3 paused a link: its buffers were too small for the case")
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// lines are the lines of a text as fields.
func lines(text []byte) func(yield func(int, [][]byte) bool) {
	return func(yield func(int, [][]byte) bool) {
		n := 0
		for line := range bytes.Lines(text) {
			if !bytes.HasSuffix(line, []byte{'\n'}) || !yield(n, bytes.Fields(line)) {
				return // what is being written has no end yet
			}
			n++
		}
	}
}

// ideals answers what each flow takes alone in the network of the case, times on the wire cut to whole
// ns as the simulator cuts them (simkernel.IdealPath has the formula).
func (n *netCase) ideals(r *simkernel.Result) {
	c, p := n.c, n.p
	for i, size := range c.SizeBytes {
		s := c.Source[i]
		hops := append(make([]int64, 0, 3), c.SourceBps[s])
		propagationNS := c.SourceDelayNS[s] + n.target.delayNS
		if c.Kind != simkernel.FirstHop {
			hops = append(hops, n.target.bps)
		}
		if n.onward {
			hops = append(hops, ns3Faster*n.target.bps)
			propagationNS += n.behindNS(i)
		}
		packets := p.Packets(size)
		last := size - (packets-1)*p.PayloadBytes + p.HeaderBytes
		var lastSum, fullSum, fullMax, best int64
		for _, bps := range hops {
			lastSum += last * 8e9 / bps
		}
		if packets == 1 {
			best = lastSum
		} else {
			for _, bps := range hops {
				full := (p.PayloadBytes + p.HeaderBytes) * 8e9 / bps
				fullSum += full
				fullMax = max(fullMax, full)
				best = max(best, fullSum+(packets-2)*fullMax+lastSum)
				lastSum -= last * 8e9 / bps
			}
		}
		r.IdealNS[i] = propagationNS + best
	}
}
