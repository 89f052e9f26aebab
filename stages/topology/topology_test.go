package topology

import (
	"strings"
	"testing"
)

func TestClosRefuses(t *testing.T) {
	for want, change := range map[string]func(*ClosSpec){
		"pods*racks_per_pod*hosts_per_rack is 0, must be 1 to 4194304": func(c *ClosSpec) { c.Pods = 0 },
		"pods*planes*spines_per_plane is 8388608": func(c *ClosSpec) {
			c.SpinesPerPlane = 1 << 21
		},
		"bandwidth of 0 bps": func(c *ClosSpec) { c.HostBps = 0 },
		"delay of -5 ns":     func(c *ClosSpec) { c.FabricDelayNS = -5 },
	} {
		c := SmallClos(4)
		change(&c)
		if _, err := Clos(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", c, err, want)
		}
	}
}
