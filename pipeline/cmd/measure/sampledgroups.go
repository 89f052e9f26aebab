package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A groupsScenario has service web everywhere, service storage on the first tenth of the racks, and service tenant in a
// virtual network of some hosts.
type groupsScenario struct {
	title, topology, load, duration string
	racks                           int // of service storage
	hosts                           string
	rounds                          int // of windows
}

// sampledGroups measures what run --within saves and changes by leaving out link cases where one group is asked for.
func sampledGroups(ctx context.Context, b *bench) {
	tenth := make([]string, 0, 614)
	for id := 0; id < 6140; id += 10 {
		tenth = append(tenth, strconv.Itoa(id))
	}
	all := []groupsScenario{
		{"256 hosts, 50% load", "small-2to1", "50%", "16s", 3, "0-31", 9},
		{"256 hosts, 75% load", "small-2to1", "75%", "8s", 3, "0-31", 8},
		{"6,144 hosts, 50% load", "large-2to1", "50%", "1s", 38, strings.Join(tenth, ", "), 3},
	}
	if b.short {
		all = all[:1]
		all[0].duration, all[0].rounds = "4s", 3
	}
	b.header("scenario and group", "flows", "bound", "link cases left out", "packets less", "p50", "p90", "p99", "p99.9",
		"processor, s: every link case", "left out")
	for i, x := range all {
		b.groupsOf(ctx, i, x)
	}
}

func (b *bench) groupsOf(ctx context.Context, i int, x groupsScenario) {
	racks := make([]string, x.racks)
	for rack := range racks {
		racks[rack] = strconv.Itoa(rack)
	}
	const service = "    - {name: %s, matrix: %s, sizes: webserver, sigma: 2, share: %d%s}\n"
	text := fmt.Sprintf("name: groups\nseed: 1\ntopology: {name: %s}\nworkload:\n  max_load: %s\n  duration: %s\n"+
		"  vnets:\n    - {name: tenants, hosts: [%s]}\n  services:\n", x.topology, x.load, x.duration, x.hosts) +
		fmt.Sprintf(service, "web", "webserver", 8, "") +
		fmt.Sprintf(service, "storage", "uniform", 1, ", racks: ["+strings.Join(racks, ", ")+"]") +
		fmt.Sprintf(service, "tenant", "uniform", 1, ", vnet: tenants")
	lake := b.tmp + "/groups" + strconv.Itoa(i)
	b.parsimon(ctx, "generate", b.file("groups.yaml", text), "--lake", lake)
	out, _ := b.execute(ctx, nil, "go", "test", "-count", "1", "-timeout", "120m", "-v", "-run", "GroupsOfLake",
		coverageGo, "-groups-lake", lake, "-groups", "service=storage,vnet=tenants,service=web", "-groups-rounds", strconv.Itoa(x.rounds))
	for line := range strings.Lines(out) {
		if row, is := strings.CutPrefix(line, "| "); is {
			b.printf("| %s: %s", x.title, strings.TrimSuffix(row, "\n"))
		}
	}
	b.fail(os.RemoveAll(lake))
}
