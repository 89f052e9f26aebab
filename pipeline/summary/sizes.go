package summary

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"parsimon/pipeline"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/schema/units"
	"parsimon/schema/variant"
)

// A SizeResult is how p99 of slowdown of a service depends on message sizes that no rule states.
type SizeResult struct {
	Service      *string `json:"service"`       // nil: all services
	MessageBytes *int64  `json:"message_bytes"` // assumed; nil: the service has no assumed size
	P99          float64 `json:"p99"`           // of the estimate
	Third        float64 `json:"p99_third"`     // with a third of all assumed sizes
	ThirdLo      float64 `json:"p99_third_lo"`
	ThirdHi      float64 `json:"p99_third_hi"`
	Triple       float64 `json:"p99_triple"` // with three times them
	TripleLo     float64 `json:"p99_triple_lo"`
	TripleHi     float64 `json:"p99_triple_hi"`
	Low          float64 `json:"p99_low"` // of the three
	High         float64 `json:"p99_high"`
	Windows      int64   `json:"windows"`
	Share        float64 `json:"windows_share"`
	Few          bool    `json:"few"` // too few flows in the windows for a p99
	BurstResult
}

// A BurstResult is p99 if several messages of assumed size begin at a time.
type BurstResult struct {
	Burst      int64    `json:"burst,omitempty"` // number of messages; 0: p99 was not estimated
	P99Burst   *float64 `json:"p99_burst,omitempty"`
	P99BurstLo *float64 `json:"p99_burst_lo,omitempty"`
	P99BurstHi *float64 `json:"p99_burst_hi,omitempty"`
}

// mostSizes is the number of services whose dependence on message sizes is shown.
const mostSizes = 8

// ReadSizes reads how an estimate depends on assumed message sizes. It opens the lake for that.
func ReadSizes(ctx context.Context, e *pipeline.Estimation, v variant.Variant) (_ []SizeResult, err error) {
	db, err := e.OpenQueries(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return readSizes(ctx, db, e, v)
}

// readSizes reads how an estimate depends on assumed message sizes. It returns nothing unless the flows are
// parts of connections of a flow log.
func readSizes(
	ctx context.Context, db *queries.DB, e *pipeline.Estimation, v variant.Variant,
) ([]SizeResult, error) {
	g, err := e.Generated()
	if err != nil || len(g.Traffic) == 0 {
		return nil, err
	}
	of := map[string]string{"variant": v.String()}
	sizes, err := answers[SizeResult](ctx, db, e, "message_size_effect", of)
	if err != nil {
		return nil, err
	}
	effects, err := e.BurstEffects(v)
	for i := range sizes {
		for _, of := range effects {
			sizes[i].setBurst(of)
		}
	}
	return sizes, err
}

// setBurst sets the effect of bursts, if it is that of the same service.
func (x *SizeResult) setBurst(of pipeline.BurstEffect) {
	all := x.Service == nil || of.Service == nil
	if all && x.Service != of.Service || !all && *x.Service != *of.Service {
		return
	}
	p99 := func(change float64) *float64 {
		value := max(1, x.P99*(1+change))
		return &value
	}
	x.Burst = of.Burst
	x.P99Burst = p99(of.Change)
	x.P99BurstLo = p99(of.Lo)
	x.P99BurstHi = p99(of.Hi)
}

// AddSizes adds the dependence on assumed message sizes and starts to a text for users.
func AddSizes(a *text.Answer, sizes []SizeResult) {
	if len(sizes) == 0 {
		return
	}
	x := sizes[0]
	a.Linef("\nAssumed message sizes and independent starts (--traffic states them): p99 with a third of these "+
		"sizes, with three times these sizes, and with bursts, from %d windows, %.3g%% of the flows, packet by "+
		"packet", x.Windows, 100*x.Share)
	for i, x := range sizes {
		if i < mostSizes || x.Service == nil {
			a.Linef("  %s", x)
		}
	}
	more := len(sizes) - 1 - mostSizes
	if more > 0 {
		a.Linef("  %d more services: parsimon query message_size_effect", more)
	}
}

// String describes the dependence in one line.
func (x SizeResult) String() string {
	name := "all flows"
	if x.Service != nil {
		name = *x.Service
		if name == "" {
			name = "(no service)"
		}
	}
	line := fmt.Sprintf("%s p99 %.3g; %.3g to %.3g", name, x.P99, x.Low, x.High)
	if x.MessageBytes != nil {
		bytes := float64(*x.MessageBytes)
		line += fmt.Sprintf(" for messages of %s to %s", sizeText(bytes/3), sizeText(3*bytes))
	}
	if x.P99Burst != nil {
		line += fmt.Sprintf("; %.3g if %d begin at a time", *x.P99Burst, x.Burst)
	}
	if x.Few {
		line += " (few flows)"
	}
	return line
}

// sizeText formats a number of bytes.
func sizeText(bytes float64) string { return strings.ToUpper(units.Human(bytes)) + "B" }
