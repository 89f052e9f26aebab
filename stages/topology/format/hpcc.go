package format

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"parsimon/stages/topology"
)

const hpccDoc = `
topology.txt of the HPCC simulator (simulation/mix in its repository): a line "nodes switches links",
the ids of the switches, and for every cable "a b rate delay error_rate" with units. Nodes that are
not switches are hosts. Losses are not simulated: an error rate other than 0 is refused. Text after
the cables is ignored.

  3 1 2
  2
  0 2 100Gbps 0.001ms 0
  1 2 100Gbps 1us 0`

// maxHPCCNodes bounds what three numbers in a file can ask for.
const maxHPCCNodes = 1 << 24

func readHPCC(d *draft) {
	r := hpccReader{draft: d, lines: strings.Split(string(d.content(d.files[0])), "\n")}
	for links, ok := r.nodeList(); ok && links > 0; links-- {
		ok = r.cable()
	}
}

// An hpccReader reads the file line by line; blank lines do not count.
type hpccReader struct {
	*draft
	lines []string
	line  int // the line read last, from 1
}

func (r *hpccReader) bad(format string, args ...any) bool {
	r.syntax(r.files[0], r.line, format, args...)
	return false
}

// next returns the fields of the next line that has any; none at the end.
func (r *hpccReader) next() []string {
	for r.line < len(r.lines) {
		r.line++
		if fields := strings.Fields(r.lines[r.line-1]); len(fields) > 0 {
			return fields
		}
	}
	return nil
}

// nodeList reads the counts and the switches, and returns the number of cables that follow.
func (r *hpccReader) nodeList() (links int, ok bool) {
	counts, ok := r.numbers(maxHPCCNodes, "count")
	switch {
	case !ok:
		return 0, false
	case len(counts) != 3:
		return 0, r.bad("want the numbers of nodes, switches and links")
	case counts[0] > 0 && counts[2] > len(r.lines):
		return 0, r.bad("%d links are more than the file has lines", counts[2])
	case counts[0]-counts[1] > 2*len(r.lines):
		return 0, r.bad("%d hosts are more than the file has cable ends", counts[0]-counts[1])
	}
	kinds := make([]string, counts[0])
	for left := counts[1]; left > 0; {
		ids, ok := r.numbers(len(kinds)-1, "switch")
		if !ok {
			return 0, false
		}
		if len(ids) == 0 || len(ids) > left {
			return 0, r.bad("want the ids of %d more switches", left)
		}
		for _, id := range ids {
			kinds[id] = topology.KindSwitch
		}
		left -= len(ids)
	}
	for i, kind := range kinds {
		kind = cmp.Or(kind, topology.KindHost)
		at := place{file: r.files[0], line: 1, path: fmt.Sprintf("node %d", i)}
		r.addNode(topology.Node{ID: int32(i), Kind: kind, Pod: -1, Rack: -1}, at)
	}
	return counts[2], true
}

// numbers reads the numbers of the next line, each from 0 to most.
func (r *hpccReader) numbers(most int, what string) (list []int, ok bool) {
	for _, f := range r.next() {
		n, err := strconv.Atoi(f)
		if err != nil || n < 0 || n > most {
			return nil, r.bad("%s %q: want a number from 0 to %d", what, f, most)
		}
		list = append(list, n)
	}
	return list, true
}

// cable reads a line of a cable; false where there is none.
func (r *hpccReader) cable() bool {
	fields := r.next()
	if len(fields) != 5 {
		return r.bad("want a link: a b rate delay error_rate")
	}
	a, errA := strconv.ParseInt(fields[0], 10, 32)
	b, errB := strconv.ParseInt(fields[1], 10, 32)
	bps, errRate := topology.ParseSpeed(fields[2])
	ns, errDelay := topology.ParseDelay(fields[3])
	plain := func(text string) bool { return strings.Trim(text, "0123456789.e") == "" }
	loss, errLoss := strconv.ParseFloat(fields[4], 64)
	switch {
	case errA != nil || errB != nil:
		r.bad("%q and %q are not two node ids", fields[0], fields[1])
	case plain(fields[2]):
		r.bad("rate %q: want a number with its unit, such as 100Gbps", fields[2])
	case plain(fields[3]):
		r.bad("delay %q: want a number with its unit, such as 0.001ms", fields[3])
	case errRate != nil:
		r.bad("rate %v", errRate)
	case errDelay != nil:
		r.bad("delay %v", errDelay)
	case errLoss != nil || loss != 0:
		r.bad("error rate %q: losses are not simulated, want 0", fields[4])
	default:
		c := topology.Cable{A: int32(a), B: int32(b), BandwidthBps: bps, DelayNS: ns}
		r.addCable(c, false, place{file: r.files[0], line: r.line})
	}
	return true
}
