package exact

import (
	"errors"
	"fmt"

	"parsimon/simkernel/network"
	"parsimon/stages/step"
	"parsimon/stages/workload"
)

// classify defines the traffic classes of an engine and returns a function that returns the class of a flow.
func classify(engine *network.Network, classes []step.TrafficClass) (of func(*workload.Row) uint8,
	err error) {
	if classes == nil {
		return func(*workload.Row) uint8 { return 0 }, nil
	}
	services := map[string]uint8{}
	vnets := map[string]uint8{}
	dscps := map[int16]uint8{}
	var queues []network.Class
	for i, c := range classes {
		queues = append(queues, c.Class)
		for _, d := range c.DSCP {
			dscps[d] = uint8(i)
		}
		for _, s := range c.Services {
			services[s] = uint8(i)
		}
		for _, v := range c.VNets {
			vnets[v] = uint8(i)
		}
	}
	return func(f *workload.Row) uint8 {
		class, ok := services[f.Service]
		if !ok {
			class, ok = vnets[f.VNet]
		}
		if !ok {
			class = dscps[max(0, f.DSCP)]
		}
		return class
	}, engine.Classify(queues)
}

// withName adds the name of the switch or the class to an error that has one.
func withName(err error, m *step.Model) error {
	var at *network.PlaceError
	switch {
	case !errors.As(err, &at):
		return err
	case at.Class >= 0:
		return fmt.Errorf("classes.%s: %w", m.Classes[at.Class].Name, at.Err)
	}
	return fmt.Errorf("%w (switch %s)", at.Err, m.Network.Name(m.Network.Nodes[at.Node].ID))
}
