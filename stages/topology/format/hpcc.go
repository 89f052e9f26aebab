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

// readHPCC makes tables of nodes and links of the lines that are not blank.
func readHPCC(d *draft) {
	file := d.files[0]
	nodes := newTable(d, file, []string{"node_id", "kind"})
	links := newTable(d, file, []string{"a", "b", "bandwidth_bps", "delay_ns"})
	lines := newTable(d, file, nil)
	for i, line := range strings.Split(string(d.content(file)), "\n") {
		lines.add(strings.Fields(line), i+1)
	}
	next := func() (fields []string, line int) {
		if len(lines.rows) > 0 {
			fields, line = lines.rows[0], lines.line[0]
			lines.rows, lines.line = lines.rows[1:], lines.line[1:]
		}
		return fields, line
	}
	first, line := next()
	counts := make([]int, 3)
	for i := range counts {
		n, err := strconv.Atoi(strings.Join(first[min(i, len(first)):min(i+1, len(first))], ""))
		if counts[i] = n; err != nil || n < 0 || n > maxHPCCNodes || len(first) != 3 {
			d.syntax(file, line, "want the numbers of nodes, switches and links, up to %d", maxHPCCNodes)
			return
		}
	}
	if counts[0]-counts[1] > 2*len(lines.rows) {
		d.syntax(file, line, "%d hosts are more than the file has cable ends", counts[0]-counts[1])
		return
	}
	kinds := map[int]string{}
	for len(kinds) < counts[1] {
		ids, line := next()
		for _, id := range ids {
			n, err := strconv.Atoi(id)
			if err != nil || n < 0 || n >= counts[0] {
				d.syntax(file, line, "switch %q: want a number below %d", id, counts[0])
				return
			}
			kinds[n] = topology.KindSwitch
		}
		if ids == nil || len(kinds) > counts[1] {
			d.syntax(file, line, "want the ids of %d switches", counts[1])
			return
		}
	}
	for i := range counts[0] {
		nodes.add([]string{strconv.Itoa(i), cmp.Or(kinds[i], topology.KindHost)}, 1)
	}
	for range counts[2] {
		fields, line := next()
		if len(fields) != 5 {
			d.syntax(file, line, "want a link: a b rate delay error_rate")
			break
		}
		cable, err := hpccCable(fields)
		if err != nil {
			d.syntax(file, line, "%v", err)
			continue
		}
		links.add(cable, line)
	}
	d.ofTables(nodes, links)
}

// hpccCable reads a b rate delay error_rate, as a row of a table of links.
func hpccCable(fields []string) ([]string, error) {
	plain := func(text string) bool { return strings.Trim(text, "0123456789.e") == "" }
	bps, errRate := topology.ParseSpeed(fields[2])
	ns, errDelay := topology.ParseDelay(fields[3])
	loss, errLoss := strconv.ParseFloat(fields[4], 64)
	switch {
	case plain(fields[2]) || errRate != nil:
		return nil, fmt.Errorf("rate %q: want a number with its unit, such as 100Gbps", fields[2])
	case plain(fields[3]) || errDelay != nil:
		return nil, fmt.Errorf("delay %q: want a number with its unit, such as 0.001ms", fields[3])
	case errLoss != nil || loss != 0:
		return nil, fmt.Errorf("error rate %q: losses are not simulated, want 0", fields[4])
	}
	return []string{fields[0], fields[1], strconv.FormatInt(bps, 10), strconv.FormatInt(ns, 10)}, nil
}
