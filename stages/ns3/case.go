package ns3

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
)

// Files of a case, in the directory in which the program runs.
const (
	configFile   = "config.txt"
	topologyFile = "topology.txt"
	flowsFile    = "flows.txt"
	traceFile    = "trace.txt" // nodes whose packets are to be traced: none
	fctFile      = "fct.txt"
	pfcFile      = "pfc.txt" // times at which links were paused
)

const (
	behindFactor = 10   // bandwidth of links behind the target relative to it (paper, §3.2)
	headerBytes  = 48   // of ns-3's packets, without time stamp or telemetry
	maxPorts     = 250  // of a switch, whose tables have 257 entries
	bufferMB     = 1000 // of a switch: never full, so that no link is paused, as in the link kernel
	maxSizeBytes = math.MaxUint32
)

// cable joins two nodes.
type cable struct {
	a, b         int
	bps, delayNS int64
}

// netCase is a link case as a network of ns-3.
type netCase struct {
	c        *linkcase.Case
	p        *simkernel.Params
	config   []byte
	nodes    int
	switches []int
	links    []cable
	target   cable
	behind   bool  // whether there are links behind the target
	sources  []int // by source: node
	sinks    []int // by flow: node of the destination
}

// node adds a node.
func (n *netCase) node() int {
	n.nodes++
	return n.nodes - 1
}

// newSwitch adds a switch.
func (n *netCase) newSwitch() int {
	n.switches = append(n.switches, n.node())
	return n.nodes - 1
}

// cable adds a cable.
func (n *netCase) cable(l cable) cable {
	n.links = append(n.links, l)
	return l
}

// newNetCase lays out the network of a case whose target has the given propagation delay.
func newNetCase(c *linkcase.Case, targetDelayNS int64, p *simkernel.Params) (*netCase, error) {
	for i, size := range c.SizeBytes {
		if size > maxSizeBytes {
			return nil, fmt.Errorf("flow row %d of the case has %d bytes, ns-3 allows at most %d", i, size,
				int64(maxSizeBytes))
		}
	}
	n := &netCase{c: c, p: p}
	for range c.SourceBps {
		n.sources = append(n.sources, n.node())
	}
	if c.Kind == linkcase.FirstHop {
		n.behind = true
		n.target = n.cable(cable{n.sources[0], n.newSwitch(), c.SourceBps[0], targetDelayNS})
	} else {
		if len(c.SourceBps) >= maxPorts {
			return nil, fmt.Errorf("the case has %d sources, a switch of ns-3 at most %d ports", len(c.SourceBps),
				maxPorts)
		}
		first := n.newSwitch()
		for s, node := range n.sources {
			n.cable(cable{node, first, c.SourceBps[s], c.SourceDelayNS[s]})
		}
		n.target = cable{first, 0, c.TargetBps, targetDelayNS}
		for i := range c.Source {
			n.behind = n.behind || n.behindNS(i) > 0
		}
		if n.behind {
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

// behindNS returns the propagation delay of a flow's path behind the target.
func (n *netCase) behindNS(flow int) int64 {
	return max(0, n.c.PathDelayNS[flow]-n.c.SourceDelayNS[n.c.Source[flow]]-n.target.delayNS)
}

// addSinks adds the destinations, one for each delay behind the target.
func (n *netCase) addSinks() error {
	at := map[int64]int{} // by delay
	for i := range n.c.Source {
		if !n.behind {
			n.sinks = append(n.sinks, n.target.b)
			continue
		}
		delayNS := n.behindNS(i)
		sink, ok := at[delayNS]
		if !ok {
			if len(at) >= maxPorts {
				return fmt.Errorf("the paths of the case have more different delays than a switch of ns-3 has ports, %d", maxPorts)
			}
			sink = n.node()
			at[delayNS] = sink
			n.cable(cable{n.target.b, sink, behindFactor * n.target.bps, delayNS})
		}
		n.sinks = append(n.sinks, sink)
	}
	return nil
}

// write writes the input files.
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
		// ns-3 truncates times to whole ns: half a ns more keeps rounding errors from losing one.
		ns := start - c.StartNS[0]
		fmt.Fprintf(&flows, "%d %d %d 3 100 %d %d.%09d5\n",
			i, n.sources[c.Source[i]], n.sinks[i], c.SizeBytes[i], ns/1e9, ns%1e9)
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{topologyFile, topology.Bytes()}, {flowsFile, flows.Bytes()}, {traceFile, []byte("0\n")},
		{configFile, n.config}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
