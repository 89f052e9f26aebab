package topology

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// parseHPCC reads topology.txt of the HPCC simulator (simulation/mix in its repository): a line
// "nodes switches links", the ids of the switches, and for every cable "a b rate delay error_rate",
// with units, e.g. 100Gbps and 0.001ms. Nodes that are no switches are hosts. Losses are not
// simulated: an error rate that is not 0 is refused. What follows the cables is commentary.
func parseHPCC(file string) (*Network, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	at := 0
	bad := func(format string, args ...any) error {
		return fmt.Errorf("topology %s: line %d: %s", file, at, fmt.Sprintf(format, args...))
	}
	next := func() []string {
		for at < len(lines) {
			at++
			if fields := strings.Fields(lines[at-1]); len(fields) > 0 {
				return fields
			}
		}
		return nil
	}
	var counts [3]int
	head := next()
	if len(head) != 3 {
		return nil, bad("want the numbers of nodes, switches and links")
	}
	for i, f := range head {
		if counts[i], err = strconv.Atoi(f); err != nil || counts[i] < 0 || counts[i] > 1<<24 {
			return nil, bad("%q is no number of nodes, switches or links", f)
		}
	}
	nodes := make([]Node, counts[0])
	nodeAt := make([]string, counts[0])
	for i := range nodes {
		nodes[i] = Node{ID: int32(i), Kind: KindHost, Pod: -1, Rack: -1}
		nodeAt[i] = fmt.Sprintf("node %d", i)
	}
	for left := counts[1]; left > 0; {
		fields := next()
		if len(fields) == 0 || len(fields) > left {
			return nil, bad("want the ids of %d more switches", left)
		}
		for _, f := range fields {
			id, err := strconv.Atoi(f)
			if err != nil || id < 0 || id >= len(nodes) {
				return nil, bad("switch %q is not one of the nodes 0 to %d", f, len(nodes)-1)
			}
			nodes[id].Kind = KindSwitch
		}
		left -= len(fields)
	}
	var cables []Cable
	var cableAt []string
	for range counts[2] {
		fields := next()
		if len(fields) != 5 {
			return nil, bad("want a link: a b rate delay error_rate")
		}
		a, errA := strconv.ParseInt(fields[0], 10, 32)
		b, errB := strconv.ParseInt(fields[1], 10, 32)
		bps, okRate := withUnit(fields[2], []unit{{"Gbps", 1e9}, {"Mbps", 1e6}, {"Kbps", 1e3}, {"kbps", 1e3}, {"bps", 1}})
		ns, okDelay := withUnit(fields[3], []unit{{"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"s", 1e9}})
		loss, errLoss := strconv.ParseFloat(fields[4], 64)
		switch {
		case errA != nil || errB != nil:
			return nil, bad("%q and %q are no node ids", fields[0], fields[1])
		case !okRate:
			return nil, bad("rate %q: want a number with its unit, e.g. 100Gbps", fields[2])
		case !okDelay:
			return nil, bad("delay %q: want a number with its unit, e.g. 0.001ms", fields[3])
		case errLoss != nil || loss != 0:
			return nil, bad("error rate %q: losses are not simulated, want 0", fields[4])
		}
		cables = append(cables, Cable{A: int32(a), B: int32(b), BandwidthBps: bps, DelayNS: ns})
		cableAt = append(cableAt, fmt.Sprintf("line %d", at))
	}
	n, err := NewNetwork(nodes, cables)
	return n, inTopology(err, file, nodeAt, file, cableAt)
}

type unit struct {
	suffix string
	factor float64
}

// withUnit reads a number that stands before the first of the units that fits.
func withUnit(text string, units []unit) (int64, bool) {
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		x, err := strconv.ParseFloat(number, 64)
		x = math.Round(x * u.factor)
		return int64(x), err == nil && x >= 0 && x < 1<<62
	}
	return 0, false
}
