package summary

import (
	"context"
	"fmt"
	"strings"

	"parsimon/pipeline"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/schema/units"
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
}

// mostSizes is the number of services whose dependence on message sizes is shown.
const mostSizes = 8

// readSizes reads how the estimate depends on assumed message sizes. It returns nothing unless the flows are
// parts of connections of a flow log.
func readSizes(ctx context.Context, db *queries.DB, e *pipeline.Estimation) ([]SizeResult, error) {
	g, err := e.Generated()
	if err != nil || len(g.Traffic) == 0 {
		return nil, err
	}
	return answers[SizeResult](ctx, db, e, "message_size_effect", nil)
}

// AddSizes adds the dependence on assumed message sizes to a text for users.
func AddSizes(a *text.Answer, sizes []SizeResult) {
	if len(sizes) == 0 {
		return
	}
	x := sizes[0]
	a.Linef("\nAssumed message sizes (--traffic states them): p99 with a third of them and with three times "+
		"them, from %d windows, %.3g%% of the flows, packet by packet", x.Windows, 100*x.Share)
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
	if x.Few {
		line += " (few flows)"
	}
	return line
}

// sizeText formats a number of bytes.
func sizeText(bytes float64) string { return strings.ToUpper(units.Human(bytes)) + "B" }
