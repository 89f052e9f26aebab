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
	"parsimon/stages/topology"
)

// Windows are parts of a scenario's time that are estimated without the rest:
//
//	    warm-up         span            cool-down
//	|──────────────|════════════════|──────────────|      time ─►
//	^ flows that began earlier and are still active begin here, with the bytes that they have left
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
}

// A WindowsSpec marks the scenario of some windows of another one.
type WindowsSpec struct {
	Of       lake.ScenarioID `json:"of"`
	ActiveNS int64           `json:"active_ns"` // the time of all parts, warm-up and cool-down included
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
	spec.Windows = &WindowsSpec{Of: base.ID()}
	for _, p := range w.Parts(g.FirstStartNS, g.LastStartNS) {
		spec.Windows.ActiveNS += p[1] - p[0]
	}
	model := &Model{base.Lake, spec, base.Network, base.Router}
	o.Base, o.Ephemeral = base.ID(), true
	e, err := newEstimation(ctx, model, base.variant, o)
	if err != nil {
		return nil, err
	}
	e.source = &windowFlows{model, generated(base.Lake, base.ID()), w}
	return e, writeSpec(e)
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
	err = c.begin(math.MaxInt64, g, out)
	c.end(math.MaxInt64)
	g.SentShare = c.sent / max(1, c.bytes)
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
	next      int     // the first part that has not begun
	fluid     *fluid  // of the whole workload
	simulated *fluid  // of what is simulated: flows that outlast a part are alone after it, and end early
	ended     int     // parts that have ended
	bytes     float64 // of the flows that are passed on
	sent      float64 // of these, within the parts, in the fluid
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
	at := 0
	for at < len(starts) {
		c.end(starts[at])
		if err := c.begin(starts[at], g, out); err != nil {
			return err
		}
		if n := c.next - 1; n >= 0 && starts[at] < c.parts[n][1] { // inside part n
			end, _ := slices.BinarySearch(starts, c.parts[n][1])
			part := rec.NewSlice(int64(at), int64(end))
			g.count(part, starts[at], starts[end-1])
			bytes := c.pour(rec, at, end, c.fluid, c.simulated)
			c.bytes, c.sent = c.bytes+bytes, c.sent+bytes
			err := out.Write(part)
			part.Release()
			if err != nil {
				return err
			}
			at = end
			continue
		}
		end := len(starts) // of a gap
		if c.next < len(c.parts) {
			end, _ = slices.BinarySearch(starts, c.parts[c.next][0])
		}
		c.pour(rec, at, end, c.fluid)
		at = end
	}
	return nil
}

// pour adds the flows of rows to fluids and returns their bytes.
func (*carrier) pour(rec arrow.Record, from, to int, fluids ...*fluid) (sum float64) {
	id, start, bytes := columns.Int64s(rec, "flow_id"), columns.Int64s(rec, "start_ns"), columns.Int64s(rec, "size_bytes")
	src, dst := columns.Int32s(rec, "src"), columns.Int32s(rec, "dst")
	service, vnet := columns.Text(rec, "service"), columns.Text(rec, "vnet")
	synthetic := columns.Named(rec, "synthetic_start").(*array.Boolean)
	for i := from; i < to; i++ {
		f := carried{id: id[i], src: src[i], dst: dst[i], service: strings.Clone(service.Value(i)),
			vnet: strings.Clone(vnet.Value(i)), synthetic: synthetic.Value(i), remaining: float64(bytes[i])}
		for _, to := range fluids {
			to.add(start[i], f)
		}
		sum += f.remaining
	}
	return sum
}

// end ends the parts that end before or at a time: what their flows have left is not sent within them.
func (c *carrier) end(ns int64) {
	for c.ended < c.next && c.parts[c.ended][1] <= ns {
		c.simulated.advance(c.parts[c.ended][1])
		c.simulated.each(func(x *carried) { c.sent -= x.remaining })
		c.ended++
	}
}

// begin begins the parts that begin before or at a time, each with the flows that are active then.
func (c *carrier) begin(ns int64, g *GenerateStats, out *lake.FlowWriter) error {
	for c.next < len(c.parts) && c.parts[c.next][0] <= ns {
		start := c.parts[c.next][0]
		c.next++
		flows := c.carry(start)
		if len(flows) == 0 {
			continue
		}
		rec := carriedRecord(start, flows)
		g.count(rec, start, start)
		err := out.Write(rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// carry returns the flows that are active at a time and begin a part, by id. A flow of an earlier part is carried over
// again, unless its simulation goes on.
func (c *carrier) carry(ns int64) (flows []carried) {
	c.end(ns)
	c.fluid.advance(ns)
	c.simulated.advance(ns)
	goesOn := map[int64]bool{}
	c.simulated.each(func(x *carried) {
		goesOn[x.id] = true
		c.sent += x.remaining // less what it has left at the end of this part
	})
	c.fluid.each(func(x *carried) {
		if !goesOn[x.id] {
			flows = append(flows, *x)
		}
	})
	slices.SortFunc(flows, func(a, b carried) int { return cmp.Compare(a.id, b.id) })
	for _, x := range flows {
		c.simulated.add(ns, x)
		c.bytes, c.sent = c.bytes+x.remaining, c.sent+x.remaining
	}
	return flows
}

// carriedRecord is a batch of table flows of flows that start at a time.
func carriedRecord(startNS int64, flows []carried) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Flows.Arrow())
	defer b.Release()
	field := func(name string) array.Builder { return b.Field(schema.Flows.Index(name)) }
	number := func(name string, value int64) { field(name).(*array.Int64Builder).Append(value) }
	for _, f := range flows {
		number("flow_id", f.id)
		number("size_bytes", int64(f.remaining))
		number("start_ns", startNS)
		field("src").(*array.Int32Builder).Append(f.src)
		field("dst").(*array.Int32Builder).Append(f.dst)
		field("service").(*array.StringBuilder).Append(f.service)
		field("vnet").(*array.StringBuilder).Append(f.vnet)
		field("synthetic_start").(*array.BooleanBuilder).Append(f.synthetic)
	}
	return b.NewRecord()
}
