package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Description summarizes a network, for people and for scripts. Only Speeds includes failed cables.
type Description struct {
	Roles            []RoleCount        `json:"roles"`
	Racks            int                `json:"racks"`
	RackHostsMin     int                `json:"rack_hosts_min"`
	RackHostsMax     int                `json:"rack_hosts_max"`
	Pods             int                `json:"pods"`
	Speeds           []SpeedCount       `json:"speeds"`
	Oversubscription []Oversubscription `json:"oversubscription"`
	Asymmetries      []Asymmetry        `json:"asymmetries"`
}

// A RoleCount counts the nodes of a kind at one distance from the hosts.
type RoleCount struct {
	Kind  string `json:"kind"`
	Level int    `json:"level"` // cables to the nearest host; -1: no host is reachable
	Nodes int    `json:"nodes"`
}

// A SpeedCount counts the cables of a tier with the same bandwidth.
type SpeedCount struct {
	Tier         string `json:"tier"`
	BandwidthBps int64  `json:"bandwidth_bps"`
	DelayMinNS   int64  `json:"delay_min_ns"`
	DelayMaxNS   int64  `json:"delay_max_ns"`
	Cables       int    `json:"cables"`
	Failed       int    `json:"failed"`
}

// An Oversubscription describes the switches of a kind: the bandwidth to lower levels divided by the
// bandwidth to higher levels.
type Oversubscription struct {
	Kind     string  `json:"kind"`
	Switches int     `json:"switches"`
	Min      float64 `json:"min"`
	Median   float64 `json:"median"`
	Max      float64 `json:"max"`
}

// An Asymmetry is a group of nodes that differ from most nodes of their kind.
type Asymmetry struct {
	Kind  string   `json:"kind"`
	Have  string   `json:"have"`
	Most  string   `json:"most_have"`
	Nodes []string `json:"nodes"`
}

// Describe returns the description of a network.
func Describe(n *Network) *Description {
	g := &levelGraph{n: n, out: n.linksUp()}
	adjacent := make([][]int32, len(n.Nodes))
	for i, links := range g.out {
		for _, l := range links {
			adjacent[i] = append(adjacent[i], n.place(n.Links[l].Dst))
		}
	}
	g.level = Levels(adjacent, func(i int) bool { return n.Nodes[i].Kind == KindHost })
	d := &Description{
		Racks: len(
			n.Racks(),
		), Pods: n.Pods(), Roles: g.roles(), Speeds: speedCounts(n), RackHostsMin: len(n.hosts),
		Oversubscription: g.oversubscription(), Asymmetries: g.asymmetries(),
	}
	for _, rack := range n.Racks() {
		d.RackHostsMin = min(d.RackHostsMin, len(rack))
		d.RackHostsMax = max(d.RackHostsMax, len(rack))
	}
	return d
}

// A levelGraph has the cables that are up, and each node's distance to the nearest host.
type levelGraph struct {
	n     *Network
	out   [][]int32 // see Network.linksUp
	level []int     // by node; -1: no host is reachable
}

// Levels returns the distance of each node to the nearest host, in cables, or -1 if no host is reachable.
// adjacent has the neighbors of each node.
func Levels(adjacent [][]int32, isHost func(i int) bool) []int {
	level := slices.Repeat([]int{-1}, len(adjacent))
	var queue []int32
	for i := range level {
		if isHost(i) {
			level[i] = 0
			queue = append(queue, int32(i))
		}
	}
	for k := 0; k < len(queue); k++ {
		for _, to := range adjacent[queue[k]] {
			if level[to] < 0 {
				level[to] = level[queue[k]] + 1
				queue = append(queue, to)
			}
		}
	}
	return level
}

// linksUp returns, by index of the node, the ids of the links that leave it and are up, in ascending order.
func (n *Network) linksUp() [][]int32 {
	out := make([][]int32, len(n.Nodes))
	for i := range n.Links {
		l := &n.Links[i]
		if !l.Failed {
			src := n.place(l.Src)
			out[src] = append(out[src], l.ID)
		}
	}
	return out
}

func (g *levelGraph) roles() (list []RoleCount) {
	counts := map[RoleCount]int{}
	for i, v := range g.n.Nodes {
		counts[RoleCount{Kind: v.Kind, Level: g.level[i]}]++
	}
	for k, n := range counts {
		k.Nodes = n
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b RoleCount) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Kind, b.Kind))
	})
	return list
}

// speedCounts counts the cables of each tier and bandwidth. A tier is named from the hosts upwards,
// regardless of the order of a cable's ends.
func speedCounts(n *Network) (list []SpeedCount) {
	for i := 0; i < len(n.Links); i += 2 {
		l := &n.Links[i]
		tier := n.Links[i].Tier
		back := n.Links[i+1].Tier
		if compareTiers(back, tier) < 0 {
			tier = back
		}
		j := slices.IndexFunc(
			list,
			func(s SpeedCount) bool { return s.Tier == tier && s.BandwidthBps == l.BandwidthBps },
		)
		if j < 0 {
			j = len(list)
			list = append(list, SpeedCount{Tier: tier, BandwidthBps: l.BandwidthBps, DelayMinNS: l.DelayNS})
		}
		s := &list[j]
		s.Cables++
		s.DelayMinNS = min(s.DelayMinNS, l.DelayNS)
		s.DelayMaxNS = max(s.DelayMaxNS, l.DelayNS)
		if l.Failed {
			s.Failed++
		}
	}
	slices.SortFunc(list, func(a, b SpeedCount) int {
		return cmp.Or(compareTiers(a.Tier, b.Tier), cmp.Compare(a.BandwidthBps, b.BandwidthBps))
	})
	return list
}

// kindRank orders kinds from the hosts upwards, and tiers by their first kind.
func kindRank(kind string) int {
	first, _, _ := strings.Cut(kind, "-")
	rank := slices.Index([]string{KindHost, KindTor, KindFabric, KindSpine}, first)
	if rank >= 0 {
		return rank
	}
	return noTier
}

const noTier = 4 // rank of all other kinds

func compareTiers(a, b string) int {
	return cmp.Or(cmp.Compare(kindRank(a), kindRank(b)), strings.Compare(a, b))
}

// bandwidths sums the bandwidths of the cables of a node to lower, equal and higher tiers. If one of the two
// nodes has no tier, their levels are compared instead. A host at a switch of an upper tier, such as a load
// balancer, lowers the level of that switch to 1 but does not change tiers.
func (g *levelGraph) bandwidths(i int) (bps [3]int64, cables [3]int) {
	for _, id := range g.out[i] {
		l := &g.n.Links[id]
		to := g.n.place(l.Dst)
		k := 1 + cmp.Compare(g.level[to], g.level[i])
		a, b := kindRank(g.n.Nodes[i].Kind), kindRank(g.n.Nodes[to].Kind)
		if max(a, b) < noTier {
			k = 1 + cmp.Compare(b, a)
		}
		bps[k] += l.BandwidthBps
		cables[k]++
	}
	return bps, cables
}

// oversubscription omits switches that have cables to one side only, such as those of the top tier.
func (g *levelGraph) oversubscription() (list []Oversubscription) {
	ratios := map[string][]float64{}
	for i, v := range g.n.Nodes {
		bps, _ := g.bandwidths(i)
		if v.Kind != KindHost && bps[0] > 0 && bps[2] > 0 {
			ratios[v.Kind] = append(ratios[v.Kind], float64(bps[0])/float64(bps[2]))
		}
	}
	for _, kind := range slices.SortedFunc(maps.Keys(ratios), compareTiers) {
		x := ratios[kind]
		slices.Sort(x)
		list = append(list, Oversubscription{kind, len(x), x[0], x[len(x)/2], x[len(x)-1]})
	}
	return list
}

// asymmetries compares the uplinks of the nodes of each kind and level, and the downlinks of the top level.
// The most frequent number of cables and bandwidth of a group are assumed to be intended.
func (g *levelGraph) asymmetries() (list []Asymmetry) {
	groups := map[RoleCount]map[string][]string{} // by what they have: names of the nodes
	for i, v := range g.n.Nodes {
		bps, cables := g.bandwidths(i)
		have := fmt.Sprintf("%s up (%s)", Count(cables[2], "cable"), FormatBps(bps[2]))
		if cables[2] == 0 {
			have = fmt.Sprintf("%s down (%s)", Count(cables[0], "cable"), FormatBps(bps[0]))
			if g.level[i] == 1 {
				continue // racks may differ in the number of hosts
			}
		}
		key := RoleCount{Kind: v.Kind, Level: g.level[i]}
		if groups[key] == nil {
			groups[key] = map[string][]string{}
		}
		groups[key][have] = append(groups[key][have], v.Name)
	}
	for key, names := range groups {
		most := slices.MaxFunc(slices.Sorted(maps.Keys(names)), func(a, b string) int {
			return cmp.Compare(len(names[a]), len(names[b]))
		})
		for have, of := range names {
			if have != most {
				list = append(list, Asymmetry{Kind: key.Kind, Have: have, Most: most, Nodes: of})
			}
		}
	}
	slices.SortFunc(list, func(a, b Asymmetry) int {
		byHave := strings.Compare(a.Have, b.Have)
		return cmp.Or(compareTiers(a.Kind, b.Kind), byHave, strings.Compare(a.Nodes[0], b.Nodes[0]))
	})
	return list
}
