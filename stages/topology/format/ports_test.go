package format

import "testing"

// Without one key for the spellings of a port, a cable that both ends list would be two cables with twice the
// bandwidth.
func TestPortKeysOfVendors(t *testing.T) {
	for _, same := range [][]string{
		{"Ethernet1", "ethernet1", "Eth1", "Et1", "ethernet 1"},
		{"Ethernet1/1", "Eth1/1", "e1-1", "ethernet-1/1"},
		{"GigabitEthernet1/0/1", "Gi1/0/1", "Gig 1/0/1", "GE1/0/1", "ge-1/0/1"},
		{"TenGigabitEthernet1/0/1", "Te1/0/1", "Ten-GigabitEthernet1/0/1", "XGE1/0/1", "10GE1/0/1", "TenGigE1/0/1"},
		{"TwentyFiveGigE1/0/1", "Twe1/0/1", "25GE1/0/1", "Twenty-FiveGigE1/0/1", "WGE1/0/1"},
		{"FortyGigE1/0/49", "fortyGigE 1/0/49", "Fo1/0/49", "40GE1/0/49", "FGE1/0/49"},
		{"HundredGigE0/0/0/1", "Hu0/0/0/1", "100GE0/0/0/1", "HundredGigabitEthernet0/0/0/1"},
		{"FourHundredGigE0/0/0/1", "400GE0/0/0/1", "FH0/0/0/1"},
		{"port-channel10", "Po10", "Port-Channel10"},
		{"swp1", "SWP1"},
	} {
		for _, name := range same[1:] {
			if portKey(name) != portKey(same[0]) {
				t.Errorf(
					"%s has key %q, and %s %q: want the same",
					name,
					portKey(name),
					same[0],
					portKey(same[0]),
				)
			}
		}
	}
	different := map[string]string{}
	for _, name := range []string{"Ethernet1", "Ethernet2", "Ethernet1/1", "Ethernet11", "Gi1/0/1", "Te1/0/1",
		"xe-0/0/1", "et-0/0/1", "ge-0/0/1", "swp1", "swp1s0", "eth0", "Ethernet0", "Port-Channel1", "Management1",
		"enp1s0f0",
		"enp1s0f1", "p1p1", "1", "2", "1/1", "Rear 1", "Front 1"} {
		if first, taken := different[portKey(name)]; taken {
			t.Errorf("%s and %s have the same key %q", name, first, portKey(name))
		}
		different[portKey(name)] = name
	}
}

// Without the speeds of H3C's and Huawei's names, each of their cables would need a rule.
func TestPortSpeedsOfVendors(t *testing.T) {
	for name, gbps := range map[string]int64{
		"GigabitEthernet1/0/1": 1, "Ten-GigabitEthernet1/0/1": 10, "XGE1/0/1": 10, "FortyGigE1/0/1": 40,
		"FGE1/0/1":         40,
		"HundredGigE1/0/1": 100, "HGE1/0/1": 100, "Twenty-FiveGigE1/0/1": 25, "WGE1/0/1": 25,
		"FourHundredGigE1/0/1": 400, "FiveGigabitEthernet1/0/1": 5, "FiftyGigE1/0/1": 50,
		"GE1/0/1": 1, "10GE1/0/1": 10, "25GE1/0/1": 25, "40GE1/0/1": 40, "100GE1/0/1": 100,
		"400GE1/0/1":            400,
		"XGigabitEthernet0/0/1": 10, "Ethernet1": 0, "swp1": 0, "eth0": 0, "Eth-Trunk1": 0, "ens1f0": 0,
	} {
		got := portSpeed(name)
		if got != gbps*1e9 {
			t.Errorf("%s: %d bps, want %d Gbps", name, got, gbps)
		}
	}
}

// Speeds below 1 Gbps, and of 2.5 Gbps, are known by name, too.
func TestPortSpeedsThatAreNoGigabits(t *testing.T) {
	for name, bps := range map[string]int64{"FastEthernet0/1": 100e6, "TwoGigabitEthernet1/0/1": 2.5e9} {
		got := portSpeed(name)
		if got != bps {
			t.Errorf("%s: %d bps, want %d", name, got, bps)
		}
	}
}
