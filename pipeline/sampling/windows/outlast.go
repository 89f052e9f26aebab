package windows

import (
	"context"
	"errors"
	"io"
	"math"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/exact"
	"parsimon/stages/route"
	"parsimon/stages/tables"
	"parsimon/stages/workload"
)

// An outlasting has the flows of a part of the time, which is simulated packet by packet. Flows that are
// active at its end continue in a fluid, together with all flows of the workload that start later:
//
//	part                        │ outlastParts times as long at most
//	packets ────────────────────┤ fluid, from the bytes that the packets left ────► FCT
//	fluid of the same flows ────┤ how far it is from the packets
type outlasting struct {
	fromNS, endNS int64                    // endNS 0: until all flows that count have finished
	counts        func(startNS int64) bool // reports whether flows that start at a time count
	left          []exact.LeftFlow         // active at the end of the part
	ended         []tables.SlowdownRow     // finished flows that count
}

// A FluidError compares a fluid of the flows of a part with the packets, at the end of the part. It covers
// flows that are active then in either of the two.
type FluidError struct {
	SentBytes  float64 `json:"fluid_sent_bytes"`  // sent by packets
	ErrorBytes float64 `json:"fluid_error_bytes"` // sum over flows of the absolute difference of sent bytes
}

// outlastParts is the time, in lengths of the part, for which flows are followed in a fluid after the part. A
// flow that lasts longer is assumed to continue at the mean rate that it had in the fluid. A fluid costs
// about 2% of the packets.
const outlastParts = 16

// finish finishes the active flows that count in fluid f, which must be empty. part reads the flows of the
// part, and later those of the workload that start after it.
func (o *outlasting) finish(ctx context.Context, f *fluid, part, later func() schema.Batches) (
	e FluidError, err error,
) {
	left := map[int64]*exact.LeftFlow{}    // active in packets, by flow id
	waiting := map[int64]*exact.LeftFlow{} // that count and have not finished
	for i := range o.left {
		x := &o.left[i]
		left[x.FlowID] = x
		if o.counts(x.StartNS) && !x.Background {
			waiting[x.FlowID] = x
		}
	}
	if len(waiting) == 0 {
		return e, nil
	}
	add := func(r *route.Flow) error {
		row := workload.Row{
			ID: r.ID, Src: r.Src, Dst: r.Dst, SizeBytes: r.SizeBytes, StartNS: r.StartNS, Connection: r.Connection,
		}
		f.add(r.StartNS, carried{Row: row, remaining: float64(r.SizeBytes)})
		return ctx.Err()
	}
	if err := columns.Each(part(), add); err != nil {
		return e, err
	}
	f.advance(o.endNS)
	e, err = o.replace(f, left, add)
	if err != nil {
		return e, err
	}
	end := func(c *carried, atNS int64) {
		x := waiting[c.ID]
		if x != nil {
			o.end(x, atNS)
			delete(waiting, c.ID)
		}
	}
	// now is the beginning of the last step of the flow. It finishes at the end of that step.
	f.ended = func(c *carried) { end(c, f.now+fluidStepNS) }
	lastNS := o.endNS + outlastParts*(o.endNS-o.fromNS)
	err = columns.Each(later(), func(r *route.Flow) error {
		if len(waiting) == 0 || r.StartNS >= lastNS {
			return io.EOF
		}
		return add(r)
	})
	if err != nil && !errors.Is(err, io.EOF) {
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

// replace replaces the state of the fluid at the end of the part by that of the packets, and returns how far
// they differ. left has the flows that are active in packets, by flow id. add adds a flow to the fluid.
func (o *outlasting) replace(f *fluid, left map[int64]*exact.LeftFlow, add func(*route.Flow) error) (
	e FluidError, err error,
) {
	f.each(func(c *carried) { // from here on with the bytes that packets left
		packets := 0.0
		x := left[c.ID]
		if x != nil {
			packets = float64(x.Bytes)
		}
		e.add(float64(c.SizeBytes)-packets, math.Abs(packets-c.remaining))
		c.remaining = packets
		c.SizeBytes = int64(packets)
		delete(left, c.ID)
	})
	for _, x := range o.left {
		if left[x.FlowID] != nil { // it has ended in the fluid
			e.add(float64(x.SizeBytes-x.Bytes), float64(x.Bytes))
			r := route.Flow{
				ID: x.FlowID, Src: x.Src, Dst: x.Dst, SizeBytes: x.Bytes, StartNS: o.endNS, Connection: x.Connection,
			}
			if err := add(&r); err != nil {
				return e, err
			}
		}
	}
	return e, nil
}

// add adds the bytes that packets sent and the error of the fluid.
func (e *FluidError) add(sentBytes, errorBytes float64) {
	e.SentBytes += sentBytes
	e.ErrorBytes += errorBytes
}

// end records that a flow finishes at a time.
func (o *outlasting) end(x *exact.LeftFlow, atNS int64) {
	x.FCTNS = max(x.IdealNS, atNS-x.StartNS)
	x.Slowdown = float64(x.FCTNS) / float64(x.IdealNS)
	x.WindowNS = min(x.WindowNS, x.FCTNS-x.IdealNS)
	o.ended = append(o.ended, x.SlowdownRow)
}

// MeanError returns the mean relative error of a byte that the fluid sends, over some parts.
func MeanError(parts []FluidError) float64 {
	var sum FluidError
	for _, x := range parts {
		sum.add(x.SentBytes, x.ErrorBytes)
	}
	return sum.ErrorBytes / max(1, sum.SentBytes)
}
