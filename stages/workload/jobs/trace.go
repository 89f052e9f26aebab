package jobs

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/tree"
)

// A Trace is the operations of a recorded or generated job, by rank, and what each waits for. ReadGOAL, ReadHtsim,
// ReadSimCCL and ReadChakra read one.
type Trace struct {
	Ranks int
	ops   []op
}

// An op is one operation of a rank. It begins when all of after have ended and all of starts have begun.
type op struct {
	kind          opKind
	oneSided      bool  // of a send: without a receive
	rank, peer    int   // peer: to whom a message goes or from whom it comes
	bytes, tag    int64 // of a message
	durationNS    int64 // of a computation
	startNS       int64 // before which it does not begin
	after, starts []int
	collective    *Collective
	group         string // of a collective: the name of its ranks
	at            string // where it stands, for errors
}

// waitFor makes the last operations, one for each list of ids, wait for the operations with these ids.
func (t *Trace) waitFor(lists [][]uint64, byID map[uint64]int, thing string) error {
	for i, ids := range lists {
		o := &t.ops[len(t.ops)-len(lists)+i]
		for _, id := range ids {
			of, known := byID[id]
			if !known {
				return fmt.Errorf("%s waits for %s %d, which the file has not", o.at, thing, id)
			}
			o.after = append(o.after, of)
		}
	}
	return nil
}

type opKind int

const (
	opCompute opKind = iota
	opSend
	opReceive
	opCollective
)

// Flows calls emit with the flows of the trace, rank i on hosts[i], each after those that it waits for, until one
// fails. A message ends for its sender and its receiver when it is delivered; a message to the same rank and one of
// no bytes take a compute step without time and one byte. Messages match in the order of the trace by sender,
// receiver and tag; the k-th collective of a group is the same at all of its ranks. Errors: too few hosts,
// operations without their counterpart, operations that wait for each other.
func (t *Trace) Flows(hosts []int32, emit func(*Flow) error) error {
	if t.Ranks > len(hosts) {
		return fmt.Errorf("%d ranks, but the topology has %d hosts", t.Ranks, len(hosts))
	}
	p := &player{ops: t.ops, nodes: make([]node, 2*len(t.ops))}
	p.g = &generator{hosts: hosts, emit: emit}
	if err := p.match(); err != nil {
		return err
	}
	if err := p.gather(); err != nil {
		return err
	}
	return p.play()
}

// A player turns operations into flows, each after those that it waits for. Operation i begins at node 2i and ends at
// node 2i+1 of a graph.
type player struct {
	ops   []op
	nodes []node
	g     *generator
}

// A node is reached when all nodes before it have been.
type node struct {
	before int     // nodes that it still waits for
	next   []int   // nodes that wait for it
	flows  []int64 // after whose delivery it is reached
	all    []int   // the operations of all ranks, at the end of a collective's first
}

func (p *player) edge(from, to int) {
	p.nodes[from].next = append(p.nodes[from].next, to)
	p.nodes[to].before++
}

// match makes the end of each receive wait for that of its send.
func (p *player) match() error {
	type channel struct {
		from, to int
		tag      int64
	}
	sends, unsent := map[channel][]int{}, map[channel]int{}
	for i, o := range p.ops {
		if o.kind == opSend && !o.oneSided {
			c := channel{o.rank, o.peer, o.tag}
			sends[c] = append(sends[c], i)
		}
	}
	for i, o := range p.ops {
		if o.kind != opReceive {
			continue
		}
		c := channel{o.peer, o.rank, o.tag}
		if unsent[c]++; unsent[c] > len(sends[c]) {
			return fmt.Errorf("%s: rank %d receives %d messages from rank %d with tag %d, which sends %d", o.at, c.to,
				unsent[c], c.from, c.tag, len(sends[c]))
		}
		p.edge(2*sends[c][unsent[c]-1]+1, 2*i+1)
	}
	for i, o := range p.ops {
		if c := (channel{o.rank, o.peer, o.tag}); o.kind == opSend && !o.oneSided && unsent[c] < len(sends[c]) {
			return fmt.Errorf("%s: rank %d sends %d messages to rank %d with tag %d, which receives %d", p.ops[i].at, c.from,
				len(sends[c]), c.to, c.tag, unsent[c])
		}
	}
	return nil
}

// gather makes the first rank of each collective begin after all others.
func (p *player) gather() error {
	type inGroup struct { // a rank, or the place of a collective among those of the group
		group string
		n     int
	}
	seen, ranks, members := map[inGroup]int{}, map[string]int{}, map[inGroup][]int{}
	var order []inGroup
	for i, o := range p.ops {
		if o.kind != opCollective {
			continue
		}
		m := inGroup{o.group, o.rank}
		if seen[m] == 0 {
			ranks[o.group]++
		}
		in := inGroup{o.group, seen[m]}
		if seen[m]++; members[in] == nil {
			order = append(order, in)
		}
		members[in] = append(members[in], i)
	}
	for _, in := range order {
		all := members[in]
		slices.SortFunc(all, func(a, b int) int { return cmp.Compare(p.ops[a].rank, p.ops[b].rank) })
		first := p.ops[all[0]]
		if len(all) != ranks[in.group] {
			return fmt.Errorf("%s: %d of the %d ranks of group %q take part", first.at, len(all), ranks[in.group], in.group)
		}
		p.nodes[2*all[0]+1].all = all
		for _, i := range all {
			if o := p.ops[i]; o.collective.Kind != first.collective.Kind || o.collective.Bytes != first.collective.Bytes {
				return fmt.Errorf("%s: %s of %d bytes, but %s: %s of %d bytes", o.at, o.collective.Kind, o.collective.Bytes,
					first.at, first.collective.Kind, first.collective.Bytes)
			}
			p.edge(2*i, 2*all[0]+1)
			if i != all[0] {
				p.edge(2*all[0]+1, 2*i+1)
			}
		}
		run := *first.collective
		if run.Kind == "all-gather" { // a trace says what a rank has before it
			run.Bytes *= int64(len(all))
		}
		if err := run.Check(len(all)); err != nil {
			return fmt.Errorf("%s: %w", first.at, err)
		}
		p.ops[all[0]].collective = &run
	}
	return nil
}

// play goes through the nodes (Kahn, CACM 5(11), 1962), until emit fails.
func (p *player) play() error {
	var ready []int
	for i, o := range p.ops {
		p.edge(2*i, 2*i+1)
		for _, of := range o.after {
			p.edge(2*of+1, 2*i)
		}
		for _, of := range o.starts {
			p.edge(2*of, 2*i)
		}
	}
	for i := range p.nodes {
		if p.nodes[i].before == 0 {
			ready = append(ready, i)
		}
	}
	reached := 0
	for ; len(ready) > 0 && p.g.err == nil; ready = ready[1:] {
		n := ready[0]
		if reached++; n%2 == 1 {
			p.end(n / 2)
		}
		for _, next := range p.nodes[n].next {
			to := &p.nodes[next]
			if p.ops[n/2].kind != opCollective || next%2 == 0 { // run sets the ends of a collective
				to.flows = append(to.flows, p.nodes[n].flows...)
			}
			if to.before--; to.before == 0 {
				to.flows = slices.Compact(slices.Sorted(slices.Values(to.flows)))
				ready = append(ready, next)
			}
		}
		if p.nodes[n].next = nil; n%2 == 1 {
			p.nodes[n].flows = nil
		}
	}
	if p.g.err == nil && reached < len(p.nodes) {
		i := slices.IndexFunc(p.nodes, func(n node) bool { return n.before > 0 })
		return fmt.Errorf("%s waits for itself, by way of other operations", p.ops[i/2].at)
	}
	return p.g.err
}

// end emits the flows of an operation, and sets after which flows it has ended.
func (p *player) end(i int) {
	o, n := &p.ops[i], &p.nodes[2*i+1]
	p.g.startNS = o.startNS
	switch {
	case o.kind == opCompute, o.kind == opSend && o.peer == o.rank:
		n.flows = []int64{p.g.step(o.rank, n.flows, o.durationNS)}
	case o.kind == opSend:
		n.flows = []int64{p.g.transfer("message", o.rank, o.peer, max(o.bytes, 1), n.flows)}
	case o.kind == opReceive && len(n.flows) > 1:
		n.flows = []int64{p.g.step(o.rank, n.flows, 0)}
	case n.all != nil:
		var group []int
		var after [][]int64
		for _, m := range n.all {
			group, after = append(group, p.ops[m].rank), append(after, p.nodes[2*m].flows)
		}
		done := p.g.collective(*p.ops[n.all[0]].collective, o.collective.Kind, group, after)
		for at, m := range n.all {
			p.nodes[2*m+1].flows = done[at]
		}
	}
}

// WriteCSV writes the flows of the trace as a flow file of one service, the job, rank i on the host of id hosts[i], and
// returns how many.
func (t *Trace) WriteCSV(out io.Writer, job string, hosts []int32) (flows int64, err error) {
	w := csv.NewWriter(out)
	err = w.Write([]string{"flow_id", "src", "dst", "size_bytes", "start_ns", "service", "after", "delay_ns"})
	if err != nil {
		return 0, err
	}
	err = t.Flows(hosts, func(f *Flow) error {
		if len(f.After) == 0 { // a time to compute from the start
			f.StartNS, f.DelayNS = f.StartNS+f.DelayNS, 0
		}
		flows++
		return w.Write([]string{strconv.FormatInt(flows-1, 10), strconv.Itoa(int(f.Src)), strconv.Itoa(int(f.Dst)),
			strconv.FormatInt(f.Bytes, 10), strconv.FormatInt(f.StartNS, 10), job, strings.Trim(fmt.Sprint(f.After), "[]"),
			strconv.FormatInt(f.DelayNS, 10)})
	})
	w.Flush()
	return flows, errors.Join(err, w.Error())
}

// ReadGOAL reads a schedule in the text form of the group operation assembly language (Hoefler, Siebert and Lumsdaine,
// ICPP 2009), as LogGOPSim's txt2bin takes it. calc is in ns. cpu and nic are read and not modeled: what does not wait
// runs at the same time. Errors name the line.
func ReadGOAL(in io.Reader) (*Trace, error) {
	r := &goalReader{Trace: &Trace{Ranks: -1}, rank: -1}
	err := eachLine(in, &r.line, func(text string) error {
		if r.comment {
			text = "/*" + text
		}
		text, _, r.comment = strings.Cut(goalComment.ReplaceAllString(text, " "), "/*")
		return r.read(strings.Fields(goalTokens.ReplaceAllString(text, " $0 ")))
	})
	switch {
	case err != nil:
		return nil, err
	case r.rank >= 0:
		return nil, fmt.Errorf("rank %d has no }", r.rank)
	case r.Ranks < 0:
		return nil, fmt.Errorf("no num_ranks")
	}
	return r.Trace, nil
}

var (
	goalComment = regexp.MustCompile(`/\*.*?\*/|//.*`)
	goalTokens  = regexp.MustCompile(`[:{}]`)
	goalOp      = regexp.MustCompile(`^(?:(\w+) : )?(?:calc (\d+)|send (\d+) ?b to (\d+)|recv (\d+) ?b from (\d+))` +
		`(?: tag (\d+))?(?: cpu \d+)?(?: nic \d+)?$`)
)

const maxLineBytes = 1 << 20

// eachLine reads the lines of a file, counts them, and names the one of an error.
func eachLine(in io.Reader, line *int, read func(text string) error) (err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLineBytes)
	for *line = 1; err == nil && lines.Scan(); *line++ {
		err = read(lines.Text())
	}
	if err != nil {
		*line--
	} else if err = lines.Err(); err == nil {
		return nil
	}
	return fmt.Errorf("line %d: %w", *line, err)
}

type goalReader struct {
	*Trace
	line    int
	comment bool
	rank    int            // -1: outside of a rank
	labels  map[string]int // of the rank
	seen    map[int]bool   // ranks
}

func (r *goalReader) read(words []string) error {
	text := strings.Join(words, " ")
	switch {
	case text == "":
	case r.rank < 0 && len(words) == 2 && words[0] == "num_ranks" && r.Ranks < 0:
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 1 || n > MaxRanks {
			return fmt.Errorf("num_ranks %s, want 1 to %d", words[1], MaxRanks)
		}
		r.Ranks, r.seen = n, map[int]bool{}
	case r.rank < 0 && len(words) == 3 && words[0] == "rank" && words[2] == "{":
		n, err := r.rankOf(words[1])
		if err != nil {
			return err
		}
		if r.seen[n] {
			return fmt.Errorf("rank %d comes twice", n)
		}
		r.rank, r.seen[n], r.labels = n, true, map[string]int{}
	case r.rank >= 0 && text == "}":
		r.rank = -1
	case r.rank >= 0 && len(words) == 3 && (words[1] == "requires" || words[1] == "irequires"):
		op, known := r.labels[words[0]]
		of, both := r.labels[words[2]]
		if !known || !both {
			return fmt.Errorf("%s: rank %d has no such label before this line", text, r.rank)
		}
		if words[1] == "requires" {
			r.ops[op].after = append(r.ops[op].after, of)
		} else {
			r.ops[op].starts = append(r.ops[op].starts, of)
		}
	case r.rank >= 0:
		return r.operation(text)
	default:
		return fmt.Errorf("%q, want num_ranks N or rank N {", text)
	}
	return nil
}

func (r *goalReader) operation(text string) error {
	m := goalOp.FindStringSubmatch(text)
	if m == nil {
		if strings.Contains(text, "-1") {
			return fmt.Errorf("%q: receiving from any rank or with any tag is not supported", text)
		}
		return fmt.Errorf("%q, want calc NS, send Nb to RANK, recv Nb from RANK (tag N), A requires B, or }", text)
	}
	o := op{rank: r.rank, at: fmt.Sprintf("line %d", r.line)}
	var err error
	for _, x := range []struct {
		text string
		kind opKind
		to   *int64
	}{{m[2], opCompute, &o.durationNS}, {m[3], opSend, &o.bytes}, {m[5], opReceive, &o.bytes}, {m[7], -1, &o.tag}} {
		if x.text == "" {
			continue
		}
		if *x.to, err = strconv.ParseInt(x.text, 10, 64); err != nil {
			return fmt.Errorf("%q: %s is too large", text, x.text)
		}
		if x.kind >= 0 {
			o.kind = x.kind
		}
	}
	if o.kind != opCompute {
		if o.peer, err = r.rankOf(m[4] + m[6]); err != nil {
			return err
		}
	}
	if m[1] != "" {
		if _, twice := r.labels[m[1]]; twice {
			return fmt.Errorf("label %s comes twice in rank %d", m[1], r.rank)
		}
		r.labels[m[1]] = len(r.ops)
	}
	r.ops = append(r.ops, o)
	return nil
}

func (r *goalReader) rankOf(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= r.Ranks {
		return 0, fmt.Errorf("rank %s, want 0 to %d (num_ranks)", text, r.Ranks-1)
	}
	return n, nil
}

// ReadHtsim reads a connection matrix of htsim (.cm): connections with a start in ps or after a trigger, and triggers
// (oneshot, multishot or barrier) that the ends of connections fire. A oneshot or multishot trigger that several
// connections fire is an error: its first firing cannot be expressed. prio is read and not modeled; multicast groups
// and failures are an error. Errors name the line.
func ReadHtsim(in io.Reader) (*Trace, error) {
	r := &htsimReader{Trace: &Trace{Ranks: -1}}
	r.fires, r.waits, r.triggers = map[int64][]int{}, map[int64][]int{}, map[int64]int{}
	err := eachLine(in, &r.line, func(text string) error { return r.read(strings.Fields(text)) })
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		name     string
		want, is int
	}{{"Connections", r.connections, len(r.ops)}, {"Triggers", r.nTriggers, len(r.triggers)}} {
		if c.want != c.is {
			return nil, fmt.Errorf("%s says %d, but there are %d", c.name, c.want, c.is)
		}
	}
	return r.Trace, r.connect()
}

type htsimReader struct {
	*Trace
	line                   int
	connections, nTriggers int
	fires, waits           map[int64][]int // by trigger: operations
	triggers               map[int64]int   // how many firings each needs
}

var (
	htsimPair    = regexp.MustCompile(`^(\d+)->(\d+)$`)
	htsimTrigger = regexp.MustCompile(`^id (\S+) (?:oneshot|multishot|barrier (?:count )?(\S+))$`)
)

func (r *htsimReader) read(words []string) (err error) {
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return nil
	}
	for name, to := range map[string]*int{"Nodes": &r.Ranks, "Connections": &r.connections, "Triggers": &r.nTriggers} {
		if words[0] != name || len(words) != 2 {
			continue
		}
		if *to, err = strconv.Atoi(words[1]); err != nil || *to < 0 || name == "Nodes" && *to > MaxRanks {
			return fmt.Errorf("%s %s is not a number in range", name, words[1])
		}
		return nil
	}
	switch pair := htsimPair.FindStringSubmatch(words[0]); {
	case pair != nil:
		return r.connection(pair, words[1:])
	case words[0] == "trigger":
		return r.trigger(words[1:])
	}
	return fmt.Errorf("%q is not supported, want Nodes, Connections, Triggers, SRC->DST or trigger", words[0])
}

func (r *htsimReader) connection(pair, words []string) (err error) {
	o := op{kind: opSend, oneSided: true, at: fmt.Sprintf("line %d", r.line)}
	for i, to := range []*int{&o.rank, &o.peer} {
		if *to, err = strconv.Atoi(pair[i+1]); err != nil || *to >= r.Ranks {
			return fmt.Errorf("node %s, want 0 to %d (Nodes)", pair[i+1], r.Ranks-1)
		}
	}
	begins, seen := false, map[string]bool{}
	for ; len(words) >= 2; words = words[2:] {
		if seen[words[0]] && !strings.HasSuffix(words[0], "_trigger") {
			return fmt.Errorf("key %q comes twice", words[0])
		}
		seen[words[0]] = true
		n, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%s %s is not a number", words[0], words[1])
		}
		switch i := len(r.ops); words[0] {
		case "start":
			o.startNS, begins = int64(math.Round(float64(n)/1000)), true
		case "size":
			o.bytes = n
		case "trigger":
			r.waits[n], begins = append(r.waits[n], i), true
		case "send_done_trigger", "recv_done_trigger":
			r.fires[n] = append(r.fires[n], i)
		case "id", "prio":
		default:
			return fmt.Errorf("key %q is not supported", words[0])
		}
	}
	switch {
	case len(words) > 0:
		return fmt.Errorf("key %q has no value", words[0])
	case !begins:
		return fmt.Errorf("%s has neither start nor trigger", pair[0])
	case o.bytes == 0:
		return fmt.Errorf("%s has no size: it would never end", pair[0])
	}
	r.ops = append(r.ops, o)
	return nil
}

// trigger reads id N oneshot, multishot, or barrier [count] N.
func (r *htsimReader) trigger(words []string) error {
	text := strings.Join(words, " ")
	m := htsimTrigger.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("trigger %s, want id N oneshot, multishot or barrier N", text)
	}
	id, err := strconv.ParseInt(m[1], 10, 64)
	n, wrong := strconv.Atoi(cmp.Or(m[2], "1"))
	if _, twice := r.triggers[id]; err != nil || wrong != nil || twice || n < 1 {
		return fmt.Errorf("trigger %s: a number is wrong, or the id comes twice", text)
	}
	r.triggers[id] = n
	return nil
}

// connect makes connections wait for those that fire their triggers.
func (r *htsimReader) connect() error {
	for id, ops := range r.waits {
		if n, known := r.triggers[id]; !known || n != len(r.fires[id]) {
			return fmt.Errorf("%s waits for trigger %d, which needs %d ends of connections and has %d", r.ops[ops[0]].at, id, n,
				len(r.fires[id]))
		}
		for _, i := range ops {
			r.ops[i].after = append(r.ops[i].after, r.fires[id]...)
		}
	}
	return nil
}

// ReadSimCCL reads the flows of collectives as SimAI's SimCCL lists them (ncclFlowModel_detailed_flows.csv of its mocks
// of NCCL 2.20 and 2.30). A flow starts when those of parent_flow_ids, semicolons between, have been delivered; without
// any at the start, as the file does not say when a collective begins. The columns about SimCCL's derivation of a flow
// are not used, nor is prev_flow_ids, which holds ranks. Flows of NVLS have switches as ranks and are an error. Errors
// name the line.
func ReadSimCCL(in io.Reader) (*Trace, error) {
	t, byID, parents := &Trace{}, map[uint64]int{}, [][]uint64{}
	columns := []string{"flow_id", "src", "dest", "flow_size", "conn_type", "parent_flow_ids", "*"}
	err := tree.CSV(in, columns, func(line int, cells []string) error {
		o, id, of, err := simcclFlow(cells)
		if _, twice := byID[id]; err == nil && twice {
			err = fmt.Errorf("flow %d comes twice", id)
		}
		o.at, byID[id] = fmt.Sprintf("line %d", line), len(t.ops)
		t.ops, parents = append(t.ops, o), append(parents, of)
		t.Ranks = max(t.Ranks, o.rank+1, o.peer+1)
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, t.waitFor(parents, byID, "flow")
}

// simcclFlow reads a flow, its id and those of its parents.
func simcclFlow(cells []string) (o op, id uint64, parents []uint64, err error) {
	number := func(what, text string, below int64) int64 {
		n, e := strconv.ParseInt(text, 10, 64)
		if (e != nil || n < 0 || n >= below) && err == nil {
			err = fmt.Errorf("%s %q, want a number from 0 to %d", what, text, below-1)
		}
		return n
	}
	id = uint64(number("flow_id", cells[0], math.MaxInt64))
	o = op{kind: opSend, oneSided: true, rank: int(number("src", cells[1], MaxRanks)),
		peer: int(number("dest", cells[2], MaxRanks)), bytes: number("flow_size", cells[3], math.MaxInt64)}
	if cells[5] != "" {
		for of := range strings.SplitSeq(cells[5], ";") {
			parents = append(parents, uint64(number("parent_flow_ids", of, math.MaxInt64)))
		}
	}
	if strings.HasPrefix(cells[4], "NVLS") && err == nil {
		err = fmt.Errorf("conn_type %s: sums in switches are not supported", cells[4])
	}
	return o, id, parents, err
}
