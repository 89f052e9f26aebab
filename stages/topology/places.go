package topology

import (
	"fmt"
	"slices"
	"strconv"
)

// inferRacks numbers the racks: as the node list names them, else hosts with the same neighbours
// make a rack. A tor belongs to the rack of its hosts if they all are of one.
func (p *plan) inferRacks(d *draft) {
	p.rack = p.named(func(v *device) string { return v.rack })
	if slices.ContainsFunc(p.rack, func(r int32) bool { return r >= 0 }) {
		return
	}
	numbers := map[string]int32{}
	for _, i := range p.naturalOrder() {
		if p.devices[i].kind != KindHost {
			break
		}
		near := slices.Clone(p.adjacent[i])
		slices.Sort(near)
		key := fmt.Sprint(near)
		r, known := numbers[key]
		if !known {
			r = int32(len(numbers))
			numbers[key] = r
		}
		p.rack[i] = r
	}
	if len(numbers) > 0 {
		d.note("racks: %d, hosts with the same neighbours (inferred)", len(numbers))
	}
	for i, v := range p.devices {
		if v.kind != KindHost && p.level[i] == 1 {
			p.rack[i] = p.rackOf(i)
		}
	}
}

// rackOf returns the rack of a switch's hosts; -1 where they are of several.
func (p *plan) rackOf(i int) int32 {
	rack := int32(-1)
	for _, k := range p.adjacent[i] {
		if p.devices[k].kind != KindHost {
			continue
		}
		if rack >= 0 && p.rack[k] != rack {
			return -1
		}
		rack = p.rack[k]
	}
	return rack
}

// inferPods numbers the pods: as the node list names them, else the parts into which a network of
// three or more tiers falls without its top tier.
func (p *plan) inferPods(d *draft) {
	p.pod = p.named(func(v *device) string { return v.pod })
	if p.top < 3 || slices.ContainsFunc(p.pod, func(r int32) bool { return r >= 0 }) {
		return
	}
	sets := newUnionFind(len(p.devices))
	for _, e := range p.ends {
		if p.level[e[0]] < p.top && p.level[e[1]] < p.top {
			sets.join(e[0], e[1])
		}
	}
	numbers := map[int32]int32{}
	for _, i := range p.naturalOrder() {
		if p.level[i] < 0 || p.level[i] == p.top {
			continue
		}
		root := sets.find(int32(i))
		pod, known := numbers[root]
		if !known {
			pod = int32(len(numbers))
			numbers[root] = pod
		}
		p.pod[i] = pod
	}
	if len(numbers) > 0 {
		d.note("pods: %d, the parts below the top tier (inferred)", len(numbers))
	}
}

// named numbers what devices are labelled with: by the number where all labels are numbers, else in
// natural order. It is -1 for a device without a label.
func (p *plan) named(label func(v *device) string) []int32 {
	number := make([]int32, len(p.devices))
	var labels []string
	numeric := true
	for i := range p.devices {
		number[i] = -1
		if text := label(&p.devices[i]); text != "" {
			n, err := strconv.ParseInt(text, 10, 32)
			numeric = numeric && err == nil && n >= 0
			labels = append(labels, text)
		}
	}
	slices.SortFunc(labels, compareNatural)
	labels = slices.Compact(labels)
	for i := range p.devices {
		text := label(&p.devices[i])
		switch n, err := strconv.ParseInt(text, 10, 32); {
		case text == "":
		case numeric && err == nil:
			number[i] = int32(n)
		default:
			at, _ := slices.BinarySearchFunc(labels, text, compareNatural)
			number[i] = int32(at)
		}
	}
	return number
}
