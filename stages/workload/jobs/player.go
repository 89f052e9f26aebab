package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// A player turns operations into flows, each emitted after those that it depends on. Operation i begins at
// node 2i and ends at node 2i+1 of a graph.
type player struct {
	*Trace
	nodes []node
	g     *generator
}

// A node is reached when all of its predecessors have been reached.
type node struct {
	before int     // nodes that it still waits for
	next   []int   // nodes that wait for it
	flows  []int64 // after whose delivery it is reached
	all    []int   // the operations of all ranks, at the end of a collective's first
}

// fewFlows is the maximum number of flows on which several operations may depend one by one. If there are
// more, the operations depend on a compute step of no duration, which depends on the flows. Otherwise n
// operations that depend on n flows would have n² dependencies.
const fewFlows = 64

func (p *player) edge(from, to int) {
	p.nodes[from].next = append(p.nodes[from].next, to)
	p.nodes[to].before++
}

// A channel is the key by which sends and receives are matched.
type channel struct {
	from, to int
	tag      int64
}

// match makes the end of each receive depend on the end of its send.
func (p *player) match() error {
	sends := map[channel][]int{}
	for i, o := range p.ops {
		if o.kind == opSend && !o.oneSided {
			c := channel{o.rank, o.peer, o.tag}
			sends[c] = append(sends[c], i)
		}
	}
	received := map[channel]int{}
	for i, o := range p.ops {
		if o.kind != opReceive {
			continue
		}
		c := channel{o.peer, o.rank, o.tag}
		received[c]++
		if received[c] > len(sends[c]) {
			return fmt.Errorf("%s: rank %d receives %d messages from rank %d with tag %d, which sends %d", o.at, c.to,
				received[c], c.from, c.tag, len(sends[c]))
		}
		send := sends[c][received[c]-1]
		sent := p.ops[send]
		if o.bytes < sent.bytes || p.equalSizes && o.bytes != sent.bytes {
			return fmt.Errorf("%s receives %d bytes, but %s sends %d", o.at, o.bytes, sent.at, sent.bytes)
		}
		p.edge(2*send+1, 2*i+1)
	}
	for _, o := range p.ops {
		c := channel{o.rank, o.peer, o.tag}
		if o.kind == opSend && !o.oneSided && received[c] < len(sends[c]) {
			return fmt.Errorf("%s: rank %d sends %d messages to rank %d with tag %d, which receives %d", o.at, c.from,
				len(sends[c]), c.to, c.tag, received[c])
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
	seen := map[inGroup]int{}
	ranks := map[string]int{}
	members := map[inGroup][]int{}
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
		seen[m]++
		if members[in] == nil {
			order = append(order, in)
		}
		members[in] = append(members[in], i)
	}
	for _, in := range order {
		if err := p.join(members[in], in.group, ranks[in.group]); err != nil {
			return err
		}
	}
	return nil
}

// join makes one collective of the operations of a group, of which each rank has one.
func (p *player) join(all []int, group string, ranks int) error {
	slices.SortFunc(all, func(a, b int) int { return cmp.Compare(p.ops[a].rank, p.ops[b].rank) })
	first := p.ops[all[0]]
	if len(all) != ranks {
		return fmt.Errorf("%s: %d of the %d ranks of group %q take part", first.at, len(all), ranks, group)
	}
	p.nodes[2*all[0]+1].all = all
	for _, i := range all {
		o := p.ops[i]
		if o.collective.Kind != first.collective.Kind || o.collective.Bytes != first.collective.Bytes {
			return fmt.Errorf("%s: %s of %d bytes, but %s: %s of %d bytes", o.at, o.collective.Kind,
				o.collective.Bytes, first.at, first.collective.Kind, first.collective.Bytes)
		}
		p.edge(2*i, 2*all[0]+1)
		if i != all[0] {
			p.edge(2*all[0]+1, 2*i+1)
		}
	}
	run := *first.collective
	if run.Kind == "all-gather" { // a trace states the bytes that a rank has before it
		run.Bytes *= int64(len(all))
	}
	if err := run.Check(len(all)); err != nil {
		return fmt.Errorf("%s: %w", first.at, err)
	}
	p.ops[all[0]].collective = &run
	return nil
}

// play visits the nodes in topological order (Kahn, CACM 5(11), 1962), until emit fails.
func (p *player) play(ctx context.Context) error {
	for i, o := range p.ops {
		p.edge(2*i, 2*i+1)
		for _, of := range o.after {
			p.edge(2*of+1, 2*i)
		}
		for _, of := range o.starts {
			p.edge(2*of, 2*i)
		}
	}
	var ready []int
	for i := range p.nodes {
		if p.nodes[i].before == 0 {
			ready = append(ready, i)
		}
	}
	reached := 0
	for ; len(ready) > 0 && p.g.err == nil; ready = ready[1:] {
		reached++
		if reached%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		ready = append(ready, p.reach(ready[0])...)
	}
	if p.g.err == nil && reached < len(p.nodes) {
		i := slices.IndexFunc(p.nodes, func(n node) bool { return n.before > 0 })
		return fmt.Errorf("%s waits for itself through other operations", p.ops[i/2].at)
	}
	return p.g.err
}

// reach emits the flows of an operation at its end, and returns the nodes all of whose predecessors have now
// been reached.
func (p *player) reach(n int) (ready []int) {
	ends := n%2 == 1
	if ends {
		p.end(n / 2)
	}
	this := &p.nodes[n]
	if len(this.next) > 1 {
		p.collapse(n)
	}
	for _, next := range this.next {
		to := &p.nodes[next]
		if p.ops[n/2].kind != opCollective || next%2 == 0 { // collectives set the flows of their ends
			to.flows = append(to.flows, this.flows...)
		}
		to.before--
		if to.before == 0 {
			to.flows = slices.Compact(slices.Sorted(slices.Values(to.flows)))
			ready = append(ready, next)
		}
	}
	this.next = nil
	if ends {
		this.flows = nil
	}
	return ready
}

// collapse replaces the flows of a node, if they are many, by one compute step that depends on them.
func (p *player) collapse(n int) {
	at := &p.nodes[n]
	if len(at.flows) > fewFlows {
		p.g.startNS = 0
		at.flows = []int64{p.g.step(p.ops[n/2].rank, at.flows, 0)}
	}
}

// end emits the flows of an operation, and records the flows after which it has ended.
func (p *player) end(i int) {
	o := &p.ops[i]
	n := &p.nodes[2*i+1]
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
			p.collapse(2 * m)
			group = append(group, p.ops[m].rank)
			after = append(after, p.nodes[2*m].flows)
		}
		done := p.g.collective(*p.ops[n.all[0]].collective, o.collective.Kind, group, after)
		for at, m := range n.all {
			p.nodes[2*m+1].flows = done[at]
		}
	}
}
