package windows

import (
	"context"
	"errors"
	"io"
	"math"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/route"
	"parsimon/stages/tables"
	"parsimon/stages/workload"
)

// outlasting are the flows of a part of the time that is simulated packet by packet. Those that are under way at its
// end go on in a fluid, in which all flows of the workload start that start later:
//
//	part                        │ outlastParts times as long at most
//	packets ────────────────────┤ fluid, from the bytes that the packets left ────► FCT
//	fluid of the same flows ────┤ how far it is from the packets
type outlasting struct {
	fromNS, endNS int64 // endNS 0: packets go on until the flows that count have ended
	counts        func(startNS int64) bool
	left          []leftFlow
	ended         []tables.SlowdownRow
}

// A leftFlow is a flow that is active at the end of a part. bytes are not acknowledged yet.
type leftFlow struct {
	tables.SlowdownRow
	bytes int64
}

// FluidError is what a fluid of a part's flows says of those under way at the end, in packets or in the fluid.
type FluidError struct {
	SentBytes  float64 `json:"fluid_sent_bytes"`  // by packets
	ErrorBytes float64 `json:"fluid_error_bytes"` // sum of how many bytes of each flow the fluid sent more or less
}

// outlastParts is how long flows are followed in a fluid after their part, in parts. A flow that takes longer is taken
// to go on at the mean rate that it had in the fluid. A fluid costs about a 50th of what packets do.
const outlastParts = 16

// finish ends the flows that count and are under way, in an empty fluid. part are the flows of the part, and later
// those that start after it.
func (o *outlasting) finish(ctx context.Context, f *fluid, part, later func() schema.Batches) (e FluidError, err error) {
	left, waiting := map[int64]*leftFlow{}, map[int64]*leftFlow{}
	for i := range o.left {
		x := &o.left[i]
		if left[x.FlowID] = x; o.counts(x.StartNS) {
			waiting[x.FlowID] = x
		}
	}
	if len(waiting) == 0 {
		return e, nil
	}
	add := func(r *route.Flow) error {
		row := workload.Row{ID: r.ID, Src: r.Src, Dst: r.Dst, SizeBytes: r.SizeBytes, StartNS: r.StartNS}
		f.add(r.StartNS, carried{Row: row, remaining: float64(r.SizeBytes)})
		return ctx.Err()
	}
	if err := columns.Each(part(), add); err != nil {
		return e, err
	}
	f.advance(o.endNS)
	f.each(func(c *carried) { // from here on with what packets left
		packets := 0.0
		if x := left[c.ID]; x != nil {
			packets = float64(x.bytes)
		}
		e.SentBytes, e.ErrorBytes = e.SentBytes+float64(c.SizeBytes)-packets, e.ErrorBytes+math.Abs(packets-c.remaining)
		c.remaining, c.SizeBytes = packets, int64(packets)
		delete(left, c.ID)
	})
	for _, x := range o.left {
		if left[x.FlowID] != nil { // has ended in the fluid
			e.SentBytes, e.ErrorBytes = e.SentBytes+float64(x.SizeBytes-x.bytes), e.ErrorBytes+float64(x.bytes)
			r := route.Flow{ID: x.FlowID, Src: x.Src, Dst: x.Dst, SizeBytes: x.bytes, StartNS: o.endNS}
			if err := add(&r); err != nil {
				return e, err
			}
		}
	}
	end := func(c *carried, atNS int64) {
		if x := waiting[c.ID]; x != nil {
			x.FCTNS = max(x.IdealNS, atNS-x.StartNS)
			x.Slowdown, x.WindowNS = float64(x.FCTNS)/float64(x.IdealNS), min(x.WindowNS, x.FCTNS-x.IdealNS)
			o.ended = append(o.ended, x.SlowdownRow)
			delete(waiting, c.ID)
		}
	}
	f.ended = func(c *carried) { end(c, f.now+fluidStepNS) } // a flow begins up to a step early, and ends up to one early
	lastNS := o.endNS + outlastParts*(o.endNS-o.fromNS)
	if err = columns.Each(later(), func(r *route.Flow) error {
		if len(waiting) == 0 || r.StartNS >= lastNS {
			return io.EOF
		}
		return add(r)
	}); err != nil && !errors.Is(err, io.EOF) {
		return e, err
	}
	for len(waiting) > 0 && f.now < lastNS {
		f.advance(f.now + fluidStepNS)
	}
	f.each(func(c *carried) {
		sent := max(1, float64(c.SizeBytes)-c.remaining)
		end(c, f.now+int64(min(math.MaxInt64/4, c.remaining/sent*float64(f.now-o.endNS))))
	})
	return e, nil
}

// MeanError is how far the fluid is from the packets in some parts: the mean relative error of a byte.
func MeanError(parts []FluidError) float64 {
	var sum FluidError
	for _, x := range parts {
		sum.SentBytes += x.SentBytes
		sum.ErrorBytes += x.ErrorBytes
	}
	return sum.ErrorBytes / max(1, sum.SentBytes)
}
