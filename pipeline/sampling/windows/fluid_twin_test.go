package windows

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// slowStep is step without memory of links: each flow asks its links for their share, in every round.
func slowStep(f *fluid) {
	before := f.steps
	f.steps++
	sent := make([]float64, len(f.active))
	for _, c := range f.active {
		for _, l := range c.path {
			f.links[l].left = f.links[l].capacity
			back := &f.links[topology.Reverse(l)]
			if back.usedAt == before {
				f.links[l].left -= f.ackShare * back.used
			}
		}
	}
	for range fluidRounds {
		for i, c := range f.active {
			sent[i] = c.remaining
			for _, l := range c.path {
				sent[i] = max(0, min(sent[i], f.links[l].left/f.links[l].flows))
			}
		}
		for i := range f.active {
			f.active[i].remaining -= sent[i]
			for _, id := range f.active[i].path {
				l := &f.links[id]
				if l.usedAt != f.steps {
					l.used = 0
					l.usedAt = f.steps
				}
				l.used += sent[i]
				l.left -= sent[i]
			}
		}
	}
	f.active = slices.DeleteFunc(f.active, func(c carried) bool {
		if c.remaining >= 1 {
			return false
		}
		f.count(c.path, -1)
		f.ended(&c)
		return true
	})
}

// A fluid that forgets the shares of links in each flow has the same bytes, to the bit, after every step.
func TestStepEqualsASlowOne(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 61))
		links := 2 * (2 + rng.IntN(6))
		fast := &fluid{links: make([]fluidLink, links), stepNS: fluidStepNS, ackShare: 60.0 / 1048}
		for i := range fast.links {
			fast.links[i].capacity = 1000 * (1 + 30*rng.Float64())
		}
		slow := *fast
		slow.links = slices.Clone(fast.links)
		var ends, slowEnds []int64
		fast.ended = func(c *carried) { ends = append(ends, c.ID, fast.steps) }
		slow.ended = func(c *carried) { slowEnds = append(slowEnds, c.ID, slow.steps) }
		for id := range int64(200) {
			for range rng.IntN(3) {
				c := carried{Row: workload.Row{ID: id}, remaining: 1 + 1e5*rng.Float64()*rng.Float64()}
				for range 1 + rng.IntN(4) {
					c.path = append(c.path, int32(rng.IntN(links)))
				}
				for _, f := range []*fluid{fast, &slow} {
					f.count(c.path, 1)
					f.active = append(f.active, c)
				}
			}
			fast.step()
			slowStep(&slow)
			if !reflect.DeepEqual(fast.active, slow.active) || !slices.Equal(ends, slowEnds) {
				t.Fatalf("seed %d, step %d: flows\n%v\nended %v, want\n%v\nended %v", seed, id, fast.active, ends,
					slow.active, slowEnds)
			}
		}
	}
}
