package topology

import (
	"strings"
	"testing"
)

func TestClosRefuses(t *testing.T) {
	for want, change := range map[string]func(*ClosSpec){
		"pods is 0":            func(c *ClosSpec) { c.Pods = 0 },
		"planes is -1":         func(c *ClosSpec) { c.Planes = -1 },
		"needs 5.33":           func(c *ClosSpec) { c.Oversubscription = 3 },
		"needs spines":         func(c *ClosSpec) { c.Oversubscription = 0 },
		"give one":             func(c *ClosSpec) { c.SpinesPerPlane = 4 },
		"are more than":        func(c *ClosSpec) { c.Pods, c.RacksPerPod, c.Oversubscription = 4096, 4096, 1 },
		"bandwidth of 0 bps":   func(c *ClosSpec) { c.HostBps = 0 },
		"delay of -5 ns":       func(c *ClosSpec) { c.FabricDelayNS = -5 },
		"which is not a whole": func(c *ClosSpec) { c.Oversubscription = 1e-300 },
	} {
		c := SmallClos(4)
		change(&c)
		if _, err := Clos(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", c, err, want)
		}
	}
}
