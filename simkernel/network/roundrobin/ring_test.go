package roundrobin

import (
	"math/rand/v2"
	"testing"

	"parsimon/simkernel"
)

// A slowRing is a list of flows in start order. It stores the number of the flow that sent last.
type slowRing struct {
	flows []slowFlow
	last  int32 // number of the flow that sent last
}

type slowFlow struct {
	number  int32
	readyPS int64
	open    bool
}

// choose returns the flow that sends next, and when. It is the flow that is ready first. Among the flows that
// are ready by freePS, it is the first one after the flow that sent last.
func (r *slowRing) choose(freePS int64) (number int32, atPS int64) {
	number = -1
	atPS = simkernel.Never
	after := 0
	for after < len(r.flows) && r.flows[after].number <= r.last {
		after++
	}
	for i := range r.flows {
		f := &r.flows[(after+i)%len(r.flows)]
		if f.open && max(freePS, f.readyPS) < atPS {
			number = f.number
			atPS = max(freePS, f.readyPS)
		}
	}
	return number, atPS
}

// A NIC serves ready flows alternately, and no flow before it is ready. With another order one flow of a host
// could starve the others.
func TestRingAgreesWithAList(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 2))
		ring := Ring{SendPS: Unknown}
		slow := &slowRing{last: -1}
		place := map[int32]int32{} // by number of the flow, which is its slot
		started := int32(0)
		nowPS := int64(0)
		first := int32(seed % 3 * 100) // flows before any ends: places in one word or in several
		for range 2000 {
			nowPS += rng.Int64N(3)
			if len(slow.flows) == 0 || started < first || rng.IntN(8) == 0 && started < 400 {
				if ring.Sparse() {
					ring.Compact(func(slot, to int32) { place[slot] = to })
				}
				place[started] = ring.Add(started, nowPS)
				slow.flows = append(slow.flows, slowFlow{started, nowPS, true})
				started++
			}
			act(rng, &ring, slow, place, nowPS)
			ring.Choose(nowPS)
			number, atPS := slow.choose(nowPS)
			if ring.SendPS != atPS || number >= 0 && ring.Places[ring.SendAt].Slot != number {
				t.Fatalf("seed %d at %d: flow at place %d sends at %d, want flow %d at %d", seed, nowPS, ring.SendAt,
					ring.SendPS, number, atPS)
			}
			if number >= 0 && rng.IntN(2) == 0 {
				nowPS = atPS
				readyPS := nowPS + rng.Int64N(6)
				ring.Sent(ring.SendAt, readyPS)
				slow.last = number
				for i := range slow.flows {
					if slow.flows[i].number == number {
						slow.flows[i].readyPS = readyPS
					}
				}
			}
		}
	}
}

// act closes, reopens or ends a random flow.
func act(rng *rand.Rand, ring *Ring, slow *slowRing, place map[int32]int32, nowPS int64) {
	i := rng.IntN(len(slow.flows))
	f := &slow.flows[i]
	switch rng.IntN(10) {
	case 0:
		ring.Close(place[f.number])
		f.open = false
	case 1, 2:
		ring.Reopen(place[f.number], nowPS)
		f.readyPS = max(f.readyPS, nowPS)
		f.open = true
	case 3:
		ring.Vacate(place[f.number])
		if len(slow.flows) == 1 {
			slow.last = -1
		}
		slow.flows = append(slow.flows[:i], slow.flows[i+1:]...)
	}
}

// A ring is compacted once more than half of its places, and more than 32, have no flow. If it never were,
// the search for the next flow would take longer with every flow that a host has sent.
func TestSparseRings(t *testing.T) {
	for _, c := range []struct {
		flows, ended int
		want         bool
	}{{65, 33, true}, {66, 33, false}, {66, 34, true}, {40, 32, false}, {40, 33, true}} {
		ring := Ring{}
		for i := range c.flows {
			ring.Add(int32(i), 0)
		}
		for i := range c.ended {
			ring.Vacate(int32(i))
		}
		if ring.Sparse() != c.want {
			t.Errorf("%d of %d flows have ended: sparse is %v", c.ended, c.flows, !c.want)
		}
	}
}

// Of more flows than a word has bits, the one that is open, or ready first, is found wherever the last one
// was. A flow that is not found never sends.
func TestEveryPlaceIsFoundFromEveryPlace(t *testing.T) {
	const flows = 130
	ring := Ring{}
	for i := range int32(flows) {
		ring.Add(i, 0)
		ring.Close(i)
	}
	for place := range int32(flows) {
		late := (place + 65) % flows
		ring.Reopen(place, 0)
		for last := range flows {
			ring.Sent(last, 0)
			ring.Places[place].ReadyPS = 3
			ring.Choose(1)
			if ring.SendAt != int(place) || ring.SendPS != 3 {
				t.Fatalf("after place %d: place %d sends at %d, want %d at 3", last, ring.SendAt, ring.SendPS, place)
			}
		}
		ring.Reopen(late, 9)
		for last := range flows {
			ring.Sent(last, 0)
			ring.Places[place].ReadyPS = 3
			ring.Places[late].ReadyPS = 9
			ring.Choose(1)
			if ring.SendAt != int(place) || ring.SendPS != 3 {
				t.Fatalf("after place %d: place %d sends at %d before %d", last, ring.SendAt, ring.SendPS, place)
			}
		}
		ring.Close(place)
		ring.Close(late)
	}
}

// Compacting a ring changes neither which flow is next nor which are open. Flows that start afterwards wait
// for their turn.
func TestCompactKeepsTheTurn(t *testing.T) {
	for _, flows := range []int32{40, 63, 64, 65, 100, 128, 129} {
		for _, last := range []int32{0, flows / 2, flows - 1} {
			ring := Ring{}
			for i := range flows {
				ring.Add(i, 0)
			}
			ring.Sent(int(last), 0)
			kept := []int32{1, 3, flows - 2}
			for i := range flows {
				if i != kept[0] && i != kept[1] && i != kept[2] {
					ring.Vacate(i)
				}
			}
			ring.Close(kept[2])
			ring.Compact(func(slot, place int32) {
				if kept[place] != slot {
					t.Errorf("%d flows: flow %d moves to place %d", flows, slot, place)
				}
			})
			// The turn is that of the first open flow behind the last one. Without one, it is that of a flow that
			// starts now, and then of the first.
			order := []int32{kept[0], kept[1], flows}
			if last >= kept[0] {
				order = []int32{kept[1], flows, kept[0]}
			}
			if last >= kept[1] {
				order = []int32{flows, kept[0], kept[1]}
			}
			ring.Choose(0)
			next := ring.Places[ring.SendAt].Slot
			if next != order[0] && order[0] != flows {
				t.Fatalf("%d flows: flow %d is next after %d, want %d", flows, next, last, order[0])
			}
			ring.Add(flows, 0)
			for _, want := range order {
				ring.Choose(0)
				got := ring.Places[ring.SendAt].Slot
				if got != want {
					t.Fatalf("%d flows: flow %d is next after %d, want %d", flows, got, last, want)
				}
				ring.Sent(ring.SendAt, 0)
			}
		}
	}
}
