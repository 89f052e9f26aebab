package format

import (
	"slices"
	"strconv"
	"strings"

	"parsimon/stages/topology"
)

// htsimKeys are the keys of htsim's fat-tree files: those before the first tier, and those of each tier.
// Queue sizes are settings of the simulator and are not read.
var (
	htsimTop  = []string{"nodes", "tiers", "podsize"}
	htsimTier = []string{
		"downlink_speed_gbps",
		"downlink_latency_ns",
		"switch_latency_ns",
		"radix_down",
		"radix_up",
		"bundle",
		"oversubscribed",
		"queue_down",
		"queue_up",
	}
)

// isHtsim reports whether a file begins like a topology of htsim.
func isHtsim(head string) bool {
	keys := htsimLines(head)
	return len(keys) > 0 && slices.Contains(htsimTop, keys[0]) && !isConnectionMatrix("", head)
}

// isConnectionMatrix reports whether a file begins like the traffic of htsim. Its header, like that of a
// topology, states the number of nodes.
func isConnectionMatrix(_, head string) bool {
	keys := htsimLines(head)
	return len(keys) > 0 && slices.Contains(htsimTop, keys[0]) && slices.Contains(keys, "connections")
}

// htsimLines returns the first word of each line that is not a comment, in lower case.
func htsimLines(head string) (words []string) {
	for line := range strings.Lines(head) {
		all := strings.Fields(strings.ToLower(line))
		if len(all) > 0 && all[0][0] != '#' {
			words = append(words, all[0])
		}
	}
	return words
}

// An htsimFile has the numbers in a file by key: those of the header, and those of each tier.
type htsimFile struct {
	*draft
	top  map[string]int64
	tier [3]map[string]int64
	ok   bool // no fault yet
}

func readHtsim(d *draft) {
	f := &htsimFile{draft: d, top: map[string]int64{}, ok: true}
	at := -1
	for i, line := range strings.Split(string(d.content(d.files[0])), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		key := strings.ToLower(words[0])
		if len(words) < 2 {
			f.bad(i+1, "%s has no number", words[0])
			continue
		}
		n, err := strconv.ParseInt(words[1], 10, 64)
		switch {
		case err != nil || n < 0 || n > 1e12:
			f.bad(i+1, "%s is %q, want a whole number from 0 to 10^12", words[0], words[1])
		case key == "tier" && n < 3:
			at = int(n)
			f.tier[at] = map[string]int64{"bundle": 1}
		case key == "tier":
			f.bad(i+1, "tier is %d, want 0 to 2", n)
		default:
			f.set(i+1, at, key, n)
		}
	}
	if f.ok {
		f.check()
	}
	if f.ok {
		f.build()
	}
}

func (f *htsimFile) bad(line int, format string, args ...any) {
	f.syntax(f.files[0], line, format, args...)
	f.ok = false
}

func (f *htsimFile) set(line, tier int, key string, n int64) {
	keys := htsimTop
	to := f.top
	if tier >= 0 {
		keys = htsimTier
		to = f.tier[tier]
	}
	for _, known := range keys {
		if known == key {
			to[key] = n
			return
		}
	}
	f.bad(line, "%s is not a key here; the keys are %s", key, strings.Join(keys, ", "))
}

// check finds missing and contradictory numbers.
func (f *htsimFile) check() {
	tiers := int(f.top["tiers"])
	if tiers < 2 || tiers > 3 {
		f.bad(0, "Tiers is %d, want 2 or 3", tiers)
		return
	}
	for t := range tiers {
		need := []string{"downlink_speed_gbps", "downlink_latency_ns", "radix_down", "bundle"}
		if t < tiers-1 {
			need = append(need, "radix_up")
		}
		for _, key := range need {
			if f.tier[t][key] < 1 {
				f.bad(0, "tier %d has no %s", t, key)
			}
		}
	}
	if f.ok {
		f.checkHosts()
	}
	for t := 0; t < tiers-1 && f.ok; t++ {
		f.checkTier(t)
	}
	if f.ok {
		f.checkSize()
	}
}

// maxHtsim is the maximum number of nodes, and of cables.
const maxHtsim = int64(topology.MaxNodes)

func (f *htsimFile) checkHosts() {
	nodes := f.top["nodes"]
	pod := f.top["podsize"]
	perTor := f.tier[0]["radix_down"]
	if nodes < 1 || nodes > maxHtsim || pod < 1 || nodes%pod != 0 || pod%perTor != 0 {
		f.bad(
			0,
			"Nodes is %d, want a multiple of Podsize (%d), which must be one of Radix_Down of tier 0 (%d)",
			nodes,
			pod,
			perTor,
		)
	}
	if f.tier[0]["bundle"] != 1 {
		f.bad(0, "Bundle of tier 0 is %d: hosts have one cable", f.tier[0]["bundle"])
	}
}

// checkTier checks the ports between a tier and the next.
func (f *htsimFile) checkTier(t int) {
	up := f.tier[t]["radix_up"]
	down := f.tier[t+1]["radix_down"]
	bundle := f.tier[t+1]["bundle"]
	if up > maxHtsim || down > maxHtsim || up%bundle != 0 || down%bundle != 0 {
		f.bad(
			0,
			"Radix_Up of tier %d (%d) and Radix_Down of tier %d (%d) must be multiples of its Bundle (%d)",
			t,
			up,
			t+1,
			down,
			bundle,
		)
	}
}

// checkSize checks that the switches of two adjacent tiers have the same number of ports toward each other.
func (f *htsimFile) checkSize() {
	size := f.size()
	up := size.tors * size.aggsPerPod
	down := size.aggs * (f.tier[1]["radix_down"] / f.tier[1]["bundle"])
	if up != down {
		f.bad(
			0,
			"%d ToR switches have %d cables up, and %d switches of tier 1 %d down",
			size.tors,
			up,
			size.aggs,
			down,
		)
		return
	}
	if f.top["tiers"] == 3 {
		core := f.tier[2]["radix_down"] / f.tier[2]["bundle"]
		if size.cores*core != size.aggs*size.coresPerAgg {
			f.bad(
				0,
				"Radix_Down of tier 2 is %d; %d switches of tier 1 with %d ports up need another number of core "+
					"switches",
				f.tier[2]["radix_down"],
				size.aggs,
				f.tier[1]["radix_up"],
			)
			return
		}
	}
	cables := up + size.aggs*size.coresPerAgg
	if cables > maxHtsim || size.tors+size.aggs+size.cores > maxHtsim {
		f.bad(
			0,
			"%d switches with %d cables are more than %d",
			size.tors+size.aggs+size.cores,
			cables,
			maxHtsim,
		)
	}
}

// htsimSize computes the numbers of nodes and cables in a file.
type htsimSize struct{ pods, torsPerPod, aggsPerPod, coresPerAgg, tors, aggs, cores int64 }

func (f *htsimFile) size() (s htsimSize) {
	s.pods = f.top["nodes"] / f.top["podsize"]
	s.torsPerPod = f.top["podsize"] / f.tier[0]["radix_down"]
	s.aggsPerPod = f.tier[0]["radix_up"] / f.tier[1]["bundle"]
	if f.top["tiers"] == 2 { // all switches of tier 1 are spine switches, of all ToR switches
		s.torsPerPod *= s.pods
		s.pods = 1
	}
	s.tors = s.pods * s.torsPerPod
	s.aggs = s.pods * s.aggsPerPod
	if f.top["tiers"] == 3 {
		s.coresPerAgg = f.tier[1]["radix_up"] / f.tier[2]["bundle"]
		s.cores = s.aggsPerPod * s.coresPerAgg
	}
	return s
}

// build adds the hosts and then the switches of each tier, with successive ids. Hosts therefore have the
// numbers that htsim's connection matrices use.
func (f *htsimFile) build() {
	s := f.size()
	nodes := f.top["nodes"]
	at := place{file: f.files[0], line: 1}
	add := func(id int64, kind string, pod, rack int64) {
		f.addNode(topology.Node{ID: int32(id), Kind: kind, Pod: int32(pod), Rack: int32(rack)}, at)
	}
	three := f.top["tiers"] == 3
	podOf := func(tor int64) int64 {
		if three {
			return tor / s.torsPerPod
		}
		return -1
	}
	perTor := f.tier[0]["radix_down"]
	for h := range nodes {
		add(h, topology.KindHost, podOf(h/perTor), h/perTor)
	}
	for t := range s.tors {
		add(nodes+t, topology.KindTor, podOf(t), t)
	}
	for h := range nodes {
		f.cables(h, nodes+h/perTor, 0)
	}
	firstAgg := nodes + s.tors
	firstCore := firstAgg + s.aggs
	for a := range s.aggs {
		if three {
			add(firstAgg+a, topology.KindFabric, a/s.aggsPerPod, -1)
		} else {
			add(firstAgg+a, topology.KindSpine, -1, -1)
		}
	}
	for t := range s.tors {
		for a := range s.aggsPerPod {
			f.cables(nodes+t, firstAgg+t/s.torsPerPod*s.aggsPerPod+a, 1)
		}
	}
	for c := range s.cores {
		add(firstCore+c, topology.KindSpine, -1, -1)
	}
	for a := range s.aggs {
		for k := range s.coresPerAgg {
			f.cables(firstAgg+a, firstCore+a%s.aggsPerPod*s.coresPerAgg+k, 2)
		}
	}
	for _, key := range []string{"queue_down", "queue_up"} {
		if f.tier[0][key] > 0 {
			f.note("left out: %s: queues are settings of a run (--switch-buffer)", key)
		}
	}
}

// cables adds the bundle of cables between a node and a node of the tier above it. The latency of a switch is
// divided equally between its cables, so that every path includes all of it.
func (f *htsimFile) cables(below, above int64, tier int) {
	t := f.tier[tier]
	delay := t["downlink_latency_ns"] + t["switch_latency_ns"]/2
	if tier > 0 {
		delay += f.tier[tier-1]["switch_latency_ns"] / 2
	}
	c := topology.Cable{
		A:            int32(below),
		B:            int32(above),
		BandwidthBps: t["downlink_speed_gbps"] * 1e9,
		DelayNS:      delay,
	}
	for range t["bundle"] {
		f.addCable(c, false, place{file: f.files[0], line: 1})
		c.Parallel = true
	}
}
