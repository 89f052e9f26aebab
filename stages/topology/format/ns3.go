package format

import (
	"strconv"
	"strings"

	"parsimon/stages/topology"
)

// These are the numbers of words in the headers of ns-3 topology files, which are: The first word is always
// the number of nodes.
//
//	HPCC      nodes switches links
//	PowerTCP  nodes switches tors links
//	SimAI     nodes GPUs-per-server NVSwitches switches links type-of-GPU
//
// The ids of the NVSwitches and of the switches follow, and then src, dst, rate, delay and error rate of each
// link. Words are separated by any white space, because the simulators do not read lines.
const (
	ns3HPCC     = 3
	ns3PowerTCP = 4
	ns3SimAI    = 6
)

// isNS3 reports whether a file begins like an ns-3 topology.
func isNS3(head string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(head), "\n")
	words := strings.Fields(first)
	if len(words) != ns3HPCC && len(words) != ns3PowerTCP && len(words) != ns3SimAI {
		return false
	}
	for _, w := range words[:min(len(words), ns3SimAI-1)] {
		if _, err := strconv.ParseUint(w, 10, 31); err != nil {
			return false
		}
	}
	return true
}

// An ns3Reader reads words and their line numbers.
type ns3Reader struct {
	*draft
	words []string
	lines []int
	next  int
	ok    bool // no fault yet
}

func readNS3(d *draft) {
	r := &ns3Reader{draft: d, ok: true}
	for i, line := range strings.Split(string(d.content(d.files[0])), "\n") {
		for _, word := range strings.Fields(line) {
			r.words = append(r.words, word)
			r.lines = append(r.lines, i+1)
		}
	}
	header := 0
	for header < len(r.lines) && r.lines[header] == r.lines[0] {
		header++
	}
	nodes := r.count("the number of nodes", topology.MaxNodes)
	inner := 0
	if header == ns3SimAI {
		r.count("the number of GPUs of a server", topology.MaxNodes)
		inner = r.count("the number of NVSwitches", nodes)
	}
	switches := r.count("the number of switches", nodes)
	if header == ns3PowerTCP {
		r.count("the number of ToR switches", nodes)
	}
	links := r.count("the number of links", topology.MaxNodes*64)
	if header == ns3SimAI {
		r.word("the type of GPU")
	}
	room := (len(r.words) - r.next) / 5
	if r.ok && links > room {
		r.syntax(r.files[0], 1, "the header counts %d links, and the file has words for %d", links, room)
		r.ok = false
	}
	if r.ok && nodes > 2*links {
		r.syntax(r.files[0], 1, "the header counts %d nodes, and %d links cannot join them", nodes, links)
		r.ok = false
	}
	if !r.ok {
		return
	}
	s := &listings{}
	s.devices = r.devices(nodes, inner, switches)
	ports := make([]int, nodes)
	for i := 0; i < links && r.ok; i++ {
		r.link(s, ports)
	}
	rest := len(r.words) - r.next
	if r.ok && rest > 0 {
		r.draft.count(
			1,
			"line",
			"left out: after the links that the header counts, from line "+strconv.Itoa(r.lines[r.next])+
				" to the end of the file: the simulator does not read them",
		)
	}
	d.assemble(s)
}

// word returns the next word.
func (r *ns3Reader) word(what string) string {
	if r.next == len(r.words) {
		if r.ok {
			r.syntax(r.files[0], r.line(), "the file ends before %s", what)
		}
		r.ok = false
		return ""
	}
	r.next++
	return r.words[r.next-1]
}

// line is the line of the word that was read last.
func (r *ns3Reader) line() int {
	if len(r.lines) == 0 {
		return 1
	}
	return r.lines[max(0, min(r.next, len(r.lines))-1)]
}

// count reads a whole number from 0 to most.
func (r *ns3Reader) count(what string, most int) int {
	text := r.word(what)
	n, err := strconv.Atoi(text)
	if r.ok && (err != nil || n < 0 || n > most) {
		r.syntax(r.files[0], r.line(), "%s is %q, want 0 to %d", what, text, most)
		r.ok = false
	}
	return n
}

// devices adds the nodes. The file lists the ids of those that are NVSwitches or switches.
func (r *ns3Reader) devices(nodes, inner, switches int) []device {
	all := make([]device, nodes)
	at := place{file: r.files[0], line: 1}
	for i := range all {
		all[i] = device{name: strconv.Itoa(i), kind: topology.KindHost, stated: true, at: at}
	}
	for i := 0; i < inner+switches && r.ok; i++ {
		id := r.count("the id of a switch", nodes-1)
		if !r.ok {
			break
		}
		if all[id].kind != topology.KindHost {
			r.syntax(r.files[0], r.line(), "switch %d is listed twice", id)
		}
		all[id].kind = topology.KindSwitch
		all[id].stated = false
		if i < inner {
			all[id].kind = topology.KindInner
			all[id].stated = true
		}
	}
	return all
}

// link reads one link. Its ports have the numbers of the interfaces of ns-3's nodes, in order of the links.
func (r *ns3Reader) link(s *listings, ports []int) {
	ends := [2]end{}
	at := place{file: r.files[0]}
	for k := range ends {
		id := r.count("the end of a link", len(ports)-1)
		if !r.ok {
			return
		}
		if k == 0 {
			at.line = r.line()
		}
		ports[id]++
		ends[k] = end{strconv.Itoa(id), "if" + strconv.Itoa(ports[id])}
	}
	rate := r.word("a rate")
	delay := r.word("a delay")
	loss := r.word("an error rate")
	if !r.ok {
		return
	}
	v := listing{a: ends[0], b: ends[1], at: at}
	var err error
	if v.bps, err = topology.ParseSpeed(rate); err != nil {
		r.fault(at, topology.FaultFormat, "the rate %v", err)
		v.bps = unknownBps
	}
	if v.delayNS, err = topology.ParseDelay(delay); err != nil {
		r.fault(at, topology.FaultFormat, "the delay %v", err)
		v.delayNS = 0
	}
	lost, err := strconv.ParseFloat(loss, 64)
	if err != nil || !(lost >= 0 && lost <= 1) {
		r.fault(at, topology.FaultFormat, "the error rate is %q, want 0 to 1", loss)
	} else if lost > 0 {
		r.draft.count(1, "cable", "left out: the error rates of %s")
	}
	s.all = append(s.all, v)
}
