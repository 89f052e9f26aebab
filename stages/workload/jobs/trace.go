package jobs

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
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
