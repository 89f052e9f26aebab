package stages

import (
	"cmp"
	"fmt"
	"slices"

	"parsimon/simkernel/network"
)

// A TrafficClass is a queue of every port, and the flows whose data wait there: those of its services, and of other
// services those in its virtual networks. All others are in queue 0.
type TrafficClass struct {
	Name     string   `json:"name"`
	Queue    int      `json:"queue"`
	Services []string `json:"services,omitempty"` // "dscp 26": what a flow file may name flows of that DSCP
	VNets    []string `json:"vnets,omitempty"`
	network.Class
}

// SettleClasses sorts classes by queue, and adds the one of queue 0 if it is missing, with the lowest weight or
// priority. Two with one queue, name, service or virtual network are an error.
func SettleClasses(classes []TrafficClass) ([]TrafficClass, error) {
	classes = slices.Clone(classes)
	slices.SortStableFunc(classes, func(a, b TrafficClass) int { return cmp.Compare(a.Queue, b.Queue) })
	if len(classes) > 0 && classes[0].Queue > 0 {
		others := TrafficClass{Name: "default"}
		if slices.ContainsFunc(classes, func(c TrafficClass) bool { return c.Weight > 0 }) {
			others.Weight = 1
		}
		classes = slices.Insert(classes, 0, others)
	}
	of := map[string]string{}
	for _, c := range classes {
		claims := []string{"name " + c.Name, fmt.Sprintf("queue %d", c.Queue)}
		for _, s := range c.Services {
			claims = append(claims, "service "+s)
		}
		for _, v := range c.VNets {
			claims = append(claims, "virtual network "+v)
		}
		for _, claim := range claims {
			if other, taken := of[claim]; taken {
				return nil, fmt.Errorf("classes %s and %s both have %s", other, c.Name, claim)
			}
			of[claim] = c.Name
		}
	}
	return classes, nil
}

// classify gives an engine classes, and returns which of them the flows of a service and virtual network are in.
func classify(engine *network.Network, classes []TrafficClass) (of func(service, vnet string) uint8, err error) {
	if classes == nil {
		return func(_, _ string) uint8 { return 0 }, nil
	}
	services, vnets := map[string]uint8{}, map[string]uint8{}
	var queues []network.Class
	for i, c := range classes {
		queues = append(queues, c.Class)
		for _, s := range c.Services {
			services[s] = uint8(i)
		}
		for _, v := range c.VNets {
			vnets[v] = uint8(i)
		}
	}
	return func(service, vnet string) uint8 {
		if class, ok := services[service]; ok {
			return class
		}
		return vnets[vnet]
	}, engine.Classify(queues)
}
