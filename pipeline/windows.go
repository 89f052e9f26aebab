package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
)

// Windows are parts of a scenario's time that are estimated without the rest:
//
//	    warm-up         span            cool-down
//	|──────────────|════════════════|──────────────|      time ─►
//	|─────| flows that began earlier and are still active begin here, with the bytes that they have left
//
// Flows that start in a span count. Flows of the warm-up and the cool-down are simulated for their effect on those that
// count. Parts that overlap are one.
type Windows struct {
	Spans      [][2]int64 `json:"spans"` // starts in ns, from and to (excluded), ascending
	WarmupNS   int64      `json:"warmup_ns"`
	CooldownNS int64      `json:"cooldown_ns"`
	// LongestBytes is the size of the workload's largest flow, which says how long before a window flows are looked
	// for that are still active.
	LongestBytes int64 `json:"longest_bytes"`
	// Alone says that each part is simulated without the others: flows that outlast a part begin again in the next one.
	Alone bool `json:"alone,omitempty"`
}

// WindowsVersion changes whenever windows of the same scenario would get other numbers than before.
func WindowsVersion() string { return fmt.Sprintf("%d-%d", methodVersion, fluidVersion) }

// A WindowsSpec marks the scenario of some windows of another one.
type WindowsSpec struct {
	Of    lake.ScenarioID `json:"of"`
	Parts [][2]int64      `json:"parts"` // of the time, in ns: see Windows.Parts
	Spans [][2]int64      `json:"spans"` // see Windows
}

// activeNS is the time of all parts, warm-up and cool-down included.
func (w *WindowsSpec) activeNS() (sum int64) {
	for _, p := range w.Parts {
		sum += p[1] - p[0]
	}
	return sum
}

// Parts are the simulated parts of the time, ascending and apart, within the workload's starts.
func (w Windows) Parts(firstNS, lastNS int64) (all [][2]int64) {
	for _, s := range w.Spans {
		from, to := max(firstNS, s[0]-w.WarmupNS), min(lastNS+1, s[1]+w.CooldownNS)
		if n := len(all) - 1; n >= 0 && from <= all[n][1] {
			all[n][1] = max(all[n][1], to)
			continue
		}
		all = append(all, [2]int64{from, to})
	}
	return all
}

// DeriveWindows opens the scenario of some windows of one that the lake holds, for an estimate. It is a scenario of its
// own, which commands do not list, and is removed with the one that it was made from.
func DeriveWindows(ctx context.Context, base *Estimation, w Windows, o Settings) (*Estimation, error) {
	g, err := base.Generated()
	if err != nil {
		return nil, err
	}
	w.Alone = base.variant.Estimator == stages.WholeNetwork
	spec := base.Spec
	spec.Canonical, err = json.Marshal(struct {
		WindowsOf lake.ScenarioID `json:"windows_of"`
		Windows   Windows         `json:"windows"`
		Fluid     int             `json:"fluid"`
	}{base.ID(), w, fluidVersion})
	if err != nil {
		return nil, err
	}
	spec.ScenarioID = lake.ScenarioID(scenario.IDOf(spec.Canonical))
	spec.Name = fmt.Sprintf("%s, %d windows", base.Spec.Name, len(w.Spans))
	spec.Aliases, spec.Planned = nil, nil
	spec.Windows = &WindowsSpec{Of: base.ID(), Parts: w.Parts(g.FirstStartNS, g.LastStartNS), Spans: w.Spans}
	model := &Model{base.Lake, spec, base.Network, base.Router, base.waits}
	if err := model.check(base.variant, o); err != nil {
		return nil, err
	}
	o.Base, o.Ephemeral = base.ID(), true
	e, err := newEstimation(ctx, model, base.variant, o)
	if err != nil {
		return nil, err
	}
	e.source = &windowFlows{model, generated(base.Lake, base.ID()), w}
	return e, e.begin()
}

// windowFlows are the flows of a base scenario in windows.
type windowFlows struct {
	*Model
	base    *engine.Stage // stage generate of the base
	windows Windows
}

func (w *windowFlows) reads() []engine.Output            { return []engine.Output{w.base.Output(schema.Flows)} }
func (*windowFlows) accept(GenerateStats, float64) error { return nil }

func (w *windowFlows) flows(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*GenerateStats, error) {
	base, err := engine.Complete(w.Lake, w.base, methodVersion)
	if err != nil {
		return nil, err
	}
	of, err := generateStats(base)
	if err != nil {
		return nil, err
	}
	bps := accessBandwidths(w.Network)
	c := carrier{windows: w.windows, fluid: newFluid(bps), simulated: newFluid(bps)}
	c.key = rng.New(w.Spec.Seed, rng.Carried).Key()
	c.parts = w.windows.Parts(of.FirstStartNS, of.LastStartNS)
	g := &GenerateStats{FirstStartNS: -1}
	files := base.Files(schema.Flows)
	for _, r := range c.reads() {
		in := w.Lake.Read(schema.Flows, files, nil, &lake.Range{Column: "start_ns", Lo: r[0], Hi: r[1]})
		err := columns.Consume(in, func(rec arrow.Record) error {
			return errors.Join(ctx.Err(), c.batch(rec, g, out))
		})
		if err != nil {
			return nil, err
		}
	}
	err = errors.Join(c.begin(math.MaxInt64, g, out), c.write(math.MaxInt64, g, out))
	return g, err
}

// accessBandwidths are the greatest bandwidths of a link out of each host.
func accessBandwidths(n *topology.Network) map[int32]int64 {
	bps := map[int32]int64{}
	for _, l := range n.Links {
		bps[l.Src] = max(bps[l.Src], l.BandwidthBps)
	}
	return bps
}

// A carrier passes on the flows of the parts and finds those that are still active when a part begins.
type carrier struct {
	windows   Windows
	parts     [][2]int64
	key       uint64     // of the times at which active flows begin
	next      int        // the first part that has not begun
	fluid     *fluid     // of the whole workload
	simulated *fluid     // of what is simulated: flows that outlast a part are alone after it, and end early
	due       []dueFlow  // flows that are to begin in the present part, by time
	held      []heldFlow // rows of the present part that are not written yet
	heldToNS  int64      // rows that start earlier are held
}

// A carried flow is in the fluid.
type carried struct {
	id            int64
	src, dst      int32
	service, vnet string
	synthetic     bool
	remaining     float64 // bytes
	sent          float64 // bytes, in the present step
	from, to      *fluidHost
}

// carryBack is how many times as long as the largest flow takes alone flows are looked for before a part.
const carryBack = 4

// reads are the times whose flows are read: each part, and before it carryBack times as long as the largest flow
// takes at the slowest host.
func (c *carrier) reads() (all [][2]int64) {
	slowest := int64(math.MaxInt64)
	for _, bps := range c.fluid.bps {
		slowest = min(slowest, bps)
	}
	back := int64(min(1e18, carryBack*float64(c.windows.LongestBytes)*8e9/float64(slowest))) + 1
	for _, p := range c.parts {
		from := p[0] - back
		if n := len(all) - 1; n >= 0 && from <= all[n][1] {
			all[n][1] = p[1]
			continue
		}
		all = append(all, [2]int64{from, p[1]})
	}
	return all
}

// batch passes on the flows of a batch that are in a part, and holds those that are active when one begins.
func (c *carrier) batch(rec arrow.Record, g *GenerateStats, out *lake.FlowWriter) error {
	starts := columns.Int64s(rec, "start_ns")
	flowAt := flowsOf(rec)
	at := 0
	for at < len(starts) {
		if err := c.begin(starts[at], g, out); err != nil {
			return err
		}
		if starts[at] >= c.heldToNS || len(c.held) > mostHeld {
			if err := c.write(min(starts[at], c.heldToNS), g, out); err != nil {
				return err
			}
		}
		end := len(starts)                                         // of a gap
		if n := c.next - 1; n >= 0 && starts[at] < c.parts[n][1] { // inside part n
			to := c.parts[n][1]
			if starts[at] < c.heldToNS {
				to = min(to, c.heldToNS)
			}
			end, _ = slices.BinarySearch(starts, to)
			if starts[at] < c.heldToNS {
				end = min(end, at+mostHeld)
			}
			for i := at; i < end; i++ {
				c.drain(starts[i])
				c.simulate(starts[i], flowAt(i))
			}
			if starts[at] >= c.heldToNS {
				if err := c.pass(rec.NewSlice(int64(at), int64(end)), g, out); err != nil {
					return err
				}
			}
		} else {
			if c.next < len(c.parts) {
				end, _ = slices.BinarySearch(starts, c.parts[c.next][0])
			}
			for i := at; i < end; i++ {
				c.fluid.add(starts[i], flowAt(i))
			}
		}
		at = end
	}
	return nil
}

// pass writes flows of a part.
func (*carrier) pass(flows arrow.Record, g *GenerateStats, out *lake.FlowWriter) error {
	defer flows.Release()
	starts := columns.Int64s(flows, "start_ns")
	g.count(flows, starts[0], starts[len(starts)-1])
	return out.Write(flows)
}

// simulate begins a flow of a part.
func (c *carrier) simulate(ns int64, f carried) {
	c.fluid.add(ns, f)
	c.include(ns, f)
}

// include adds a flow to those that are simulated, and holds it while others may begin before it.
func (c *carrier) include(ns int64, f carried) {
	c.simulated.add(ns, f)
	if ns < c.heldToNS {
		c.held = append(c.held, heldFlow{ns, f})
	}
}

// flowsOf returns a function that returns the flow of a row of table flows.
func flowsOf(rec arrow.Record) func(i int) carried {
	id, bytes := columns.Int64s(rec, "flow_id"), columns.Int64s(rec, "size_bytes")
	src, dst := columns.Int32s(rec, "src"), columns.Int32s(rec, "dst")
	service, vnet := columns.Text(rec, "service"), columns.Text(rec, "vnet")
	synthetic := columns.Named(rec, "synthetic_start").(*array.Boolean)
	return func(i int) carried {
		return carried{id: id[i], src: src[i], dst: dst[i], service: strings.Clone(service.Value(i)),
			vnet: strings.Clone(vnet.Value(i)), synthetic: synthetic.Value(i), remaining: float64(bytes[i])}
	}
}

// begin begins the parts that begin before or at a time. The flows that are active then are due in the first half of
// the warm-up.
//
// If they all began with the part, the first windows of all of them would meet in the queues, which takes longer than
// a warm-up to pass where flows are long. Each has its own time (a hash of seed and id), and begins with the bytes that
// it has left then, if any.
func (c *carrier) begin(ns int64, g *GenerateStats, out *lake.FlowWriter) error {
	for c.next < len(c.parts) && c.parts[c.next][0] <= ns {
		if err := c.write(math.MaxInt64, g, out); err != nil {
			return err
		}
		part := c.parts[c.next]
		c.next++
		spreadNS := min(c.windows.WarmupNS/2, part[1]-part[0]-1)
		c.heldToNS = part[0] + spreadNS + 1
		for _, id := range c.carry(part[0]) {
			offsetNS := rng.Below32(uint32(rng.Hash(c.key, uint64(id))), int(spreadNS+1))
			c.due = append(c.due, dueFlow{part[0] + int64(offsetNS), id})
		}
		slices.SortFunc(c.due, func(a, b dueFlow) int { return cmp.Or(cmp.Compare(a.ns, b.ns), cmp.Compare(a.id, b.id)) })
	}
	return nil
}

// A dueFlow is to begin at a time, if it is active then.
type dueFlow struct{ ns, id int64 }

// A heldFlow begins at a time.
type heldFlow struct {
	ns int64
	carried
}

// drain begins the flows that are due until a time. The fluid knows what they have left at each of its steps.
func (c *carrier) drain(ns int64) {
	for len(c.due) > 0 && c.due[0].ns <= ns {
		c.fluid.advance(c.due[0].ns)
		step, starts := c.due[0].ns/fluidStepNS, map[int64]int64{}
		for len(c.due) > 0 && c.due[0].ns <= ns && c.due[0].ns/fluidStepNS == step {
			starts[c.due[0].id] = c.due[0].ns
			c.due = c.due[1:]
		}
		var begins []heldFlow
		c.fluid.each(func(x *carried) {
			if start, ok := starts[x.id]; ok {
				begins = append(begins, heldFlow{start, *x})
			}
		})
		sortHeld(begins)
		for _, x := range begins {
			c.include(x.ns, x.carried)
		}
	}
}

func sortHeld(flows []heldFlow) {
	slices.SortFunc(flows, func(a, b heldFlow) int { return cmp.Or(cmp.Compare(a.ns, b.ns), cmp.Compare(a.id, b.id)) })
}

// mostHeld is about the largest number of flows that are held.
const mostHeld = 1 << 16

// write begins the flows that are due before a time, and writes those that are held and begin before it.
func (c *carrier) write(beforeNS int64, g *GenerateStats, out *lake.FlowWriter) error {
	c.drain(beforeNS - 1)
	sortHeld(c.held)
	n, _ := slices.BinarySearchFunc(c.held, beforeNS, func(x heldFlow, ns int64) int { return cmp.Compare(x.ns, ns) })
	if n == 0 {
		return nil
	}
	rec := heldRecord(c.held[:n])
	c.held = slices.Delete(c.held, 0, n)
	return c.pass(rec, g, out)
}

// carry returns the ids of the flows that are active when a part begins. A flow of an earlier part is carried over
// again, unless its simulation goes on.
func (c *carrier) carry(ns int64) (ids []int64) {
	c.fluid.advance(ns)
	c.simulated.advance(ns)
	goesOn := map[int64]bool{}
	if !c.windows.Alone {
		c.simulated.each(func(x *carried) {
			goesOn[x.id] = true
		})
	}
	c.fluid.each(func(x *carried) {
		if !goesOn[x.id] {
			ids = append(ids, x.id)
		}
	})
	return ids
}

// heldRecord is a batch of table flows.
func heldRecord(flows []heldFlow) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Flows.Arrow())
	defer b.Release()
	field := func(name string) array.Builder { return b.Field(schema.Flows.Index(name)) }
	number := func(name string, value int64) { field(name).(*array.Int64Builder).Append(value) }
	for _, f := range flows {
		number("flow_id", f.id)
		number("size_bytes", int64(f.remaining))
		number("start_ns", f.ns)
		field("src").(*array.Int32Builder).Append(f.src)
		field("dst").(*array.Int32Builder).Append(f.dst)
		field("service").(*array.StringBuilder).Append(f.service)
		field("vnet").(*array.StringBuilder).Append(f.vnet)
		field("synthetic_start").(*array.BooleanBuilder).Append(f.synthetic)
	}
	return b.NewRecord()
}
