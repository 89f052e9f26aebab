package route

import (
	"context"
	"errors"
	"fmt"

	"parsimon/schema"
	"parsimon/stages/step"
	"parsimon/stages/topology"
)

// Step returns the step that chooses the path of each flow, lists its hops, and computes its ideal FCT,
// window delay and round trip, as if it were alone in the network.
func Step(m *step.Model, flows *step.Step) *step.Step {
	chunks := flows.Output(schema.Flows)
	return &step.Step{
		Name:        "route",
		Reads:       []step.Output{chunks},
		Writes:      []schema.Table{schema.Hops, schema.FlowPaths, schema.LinkLoads},
		Cut:         step.Cut{By: step.ByFlows},
		Unit:        "flows",
		BytesPerRow: 250,
		Sharing:     step.ByScenario,
		Open: step.Always(func(ctx context.Context, t step.Task) error {
			in := Chunk{int32(t.Number()), t.Range().Lo, t.Part(chunks, t.Number())}
			out := Sink{t.Sink(schema.Hops), t.Sink(schema.FlowPaths), t.Sink(schema.LinkLoads)}
			_, err := Flows(ctx, m, in, out)
			var unreachable *topology.UnreachableError
			if errors.As(err, &unreachable) {
				err = fmt.Errorf("%w (--allow-unreachable counts such flows instead)", err)
			}
			return err
		}),
	}
}

// LoadsOf reads the loads of links that the step has written.
func LoadsOf(m *step.Model, in step.Inputs, routed *step.Step) (*Loads, error) {
	return ReadLoads(m.Network, in.Read(step.All, routed.Output(schema.LinkLoads)))
}
