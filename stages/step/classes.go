package step

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"parsimon/schema/names"
	"parsimon/simkernel/network"
)

// A TrafficClass is a queue of every port and the flows whose data wait in it. A flow belongs to the class
// that lists its service, otherwise to the one that lists its virtual network, otherwise to the one that
// lists its DSCP. An unknown DSCP is treated as 0, the default (RFC 2474). All other flows belong to queue 0.
type TrafficClass struct {
	Name     string   `json:"name"`
	Queue    int      `json:"queue"`
	Services []string `json:"services,omitempty"`
	VNets    []string `json:"vnets,omitempty"`
	DSCP     []int16  `json:"dscp,omitempty"`
	network.Class
}

// SettleClasses sorts classes by queue. If queue 0 has no class, it adds one with the lowest weight or
// priority. It returns an error if two classes have the same queue, name, service, virtual network or DSCP,
// or if a class other than that of queue 0 lists no flows.
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
		if c.Name == "" {
			return nil, fmt.Errorf("the class of queue %d has an empty name", c.Queue)
		}
		if c.Queue > 0 && len(c.Services)+len(c.VNets)+len(c.DSCP) == 0 {
			return nil, fmt.Errorf("class %s of queue %d has no services, vnets or dscp", c.Name, c.Queue)
		}
		claims := []string{"name " + strings.ToLower(c.Name), fmt.Sprintf("queue %d", c.Queue)}
		claims = append(claims, names.Of(c.Services, func(s string) string { return "service " + s })...)
		claims = append(claims, names.Of(c.VNets, func(v string) string { return "virtual network " + v })...)
		claims = append(claims, names.Of(c.DSCP, func(d int16) string { return fmt.Sprintf("dscp %d", d) })...)
		for _, claim := range claims {
			if other, taken := of[claim]; taken {
				return nil, fmt.Errorf("classes %s and %s both have %s", other, c.Name, claim)
			}
			of[claim] = c.Name
		}
	}
	return classes, nil
}
