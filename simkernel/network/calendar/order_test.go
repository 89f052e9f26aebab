package calendar

import (
	"math/rand/v2"
	"slices"
	"testing"

	"parsimon/simkernel"
)

// A calendar yields each arrival in the window of its time, and each port at the time of its check,
// regardless of the order in which they were inserted. A lost arrival is a lost packet.
func TestCalendarYieldsEverythingInItsWindow(t *testing.T) {
	const lengthPS, ports = 1000, 130
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		c := New(ports, lengthPS)
		c.SetWindow(0)
		var arrivals []Arrival
		looks := map[int64]map[int32]bool{} // by window
		inserted := 0
		add := func(fromPS int64) {
			atPS := fromPS + rng.Int64N([]int64{lengthPS, 30 * lengthPS, 500 * lengthPS}[rng.IntN(3)])
			port := rng.Int32N(ports)
			if rng.IntN(3) == 0 {
				c.Schedule(port, atPS)
				if looks[atPS/lengthPS] == nil {
					looks[atPS/lengthPS] = map[int32]bool{}
				}
				looks[atPS/lengthPS][port] = true
				return
			}
			a := Arrival{Item: Item{AtPS: atPS, Hop: int32(inserted)}, Port: port}
			inserted++
			arrivals = append(arrivals, a)
			room := c.RoomAt(atPS)
			if room != nil && rng.IntN(2) == 0 {
				*room = append(*room, a)
				return
			}
			c.Insert(a)
		}
		for range 50 {
			add(0)
		}
		var got []Arrival
		for nextPS := c.NextPS(); nextPS != simkernel.Never; nextPS = c.NextPS() {
			c.SetWindow(nextPS)
			work, some := c.Take()
			for _, a := range work.Arrivals {
				if a.AtPS < c.StartPS || a.AtPS >= c.EndPS {
					t.Fatalf("seed %d: an arrival at %d in the window of %d to %d", seed, a.AtPS, c.StartPS, c.EndPS)
				}
			}
			got = append(got, work.Arrivals...)
			for port := range looks[nextPS/lengthPS] {
				if !some || work.Ports.bits[port/64]>>(port%64)&1 == 0 {
					t.Fatalf("seed %d: port %d does not look in the window of %d", seed, port, c.StartPS)
				}
			}
			delete(looks, nextPS/lengthPS)
			if some {
				clear(work.Ports.bits)
				clear(work.Ports.words)
				c.Reuse(work)
			}
			for range 2 {
				if inserted < 500 {
					add(c.EndPS)
				}
			}
		}
		byHop := func(a, b Arrival) int { return int(a.Hop - b.Hop) }
		slices.SortFunc(got, byHop)
		if !slices.Equal(got, arrivals) || len(looks) > 0 {
			t.Errorf("seed %d: %d of %d arrivals, %d windows with looks are left", seed, len(got), len(arrivals),
				len(looks))
		}
	}
}

// A sorter yields the arrivals of each port by time and link, and keeps the order of those of one link. Every
// port with arrivals or a look is in its group. Another order would make results depend on the domains.
func TestSorterAgreesWithAStableSort(t *testing.T) {
	const low, ports, hosts = 40, 150, 60
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 4))
		s := NewSorter(low, ports-hosts, ports)
		s.Limited = seed%2 == 1
		work := newPortSet(ports)
		want := make([][]Arrival, ports)
		var looks [ports]bool
		var arrivals []Arrival
		for i := range rng.IntN(400) {
			u := rng.Int32N(ports) / (1 + rng.Int32N(3))
			a := Arrival{Item: Item{AtPS: rng.Int64N(50), Hop: int32(i)}, Port: low + u, Link: rng.Int32N(4)}
			arrivals = append(arrivals, a)
			want[u] = append(want[u], a)
		}
		for range rng.IntN(30) {
			u := rng.Int32N(ports)
			work.Add(u)
			looks[u] = true
		}
		s.SortByPort(slices.Clone(arrivals), work)
		if slices.Max(work.bits) != 0 || slices.Max(work.words) != 0 {
			t.Fatalf("seed %d: ports are left in the set, %v, %v", seed, work.bits, work.words)
		}
		seen := 0
		for g := range dueGroups {
			for _, o := range s.DueOf(g) {
				got := s.ArrivalsOf(o)
				isHost := o.Port >= ports-hosts
				group := min(len(want[o.Port]), DueHosts-1)
				if s.Limited && !isHost {
					group = 0
				}
				if isHost {
					group += DueHosts
				}
				slices.SortStableFunc(want[o.Port], CompareArrivals)
				if g != group || !slices.Equal(got, want[o.Port]) {
					t.Fatalf("seed %d, port %d in group %d, want %d: %d arrivals, want %d in order", seed, o.Port, g,
						group, len(got), len(want[o.Port]))
				}
				want[o.Port] = nil
				looks[o.Port] = false
				seen += len(got)
			}
		}
		if seen != len(arrivals) || slices.Contains(looks[:], true) {
			t.Errorf("seed %d: %d arrivals of %d, ports that look are left: %v", seed, seen, len(arrivals),
				slices.Contains(looks[:], true))
		}
		again := slices.Clone(arrivals)
		s.SortWindow(again, 0, 50)
		slices.SortStableFunc(arrivals, CompareArrivals)
		if !slices.Equal(again, arrivals) {
			t.Errorf("seed %d: the arrivals of the window are out of order", seed)
		}
	}
}

// A queue keeps its items and their order, regardless of when its memory is trimmed. If it lost or repeated
// an item, a packet would be lost or duplicated.
func TestFifoKeepsItsOrder(t *testing.T) {
	var f, other Fifo
	rng := rand.New(rand.NewPCG(5, 5))
	pushed := int32(0)
	popped := int32(0)
	arrived := int32(0) // counted from the first item that was ever pushed
	for range 5000 {
		switch {
		case rng.IntN(2) == 0:
			f.Push(Item{Hop: pushed})
			pushed++
		case !f.Empty():
			if f.Buf[f.Head].Hop != popped {
				t.Fatalf("item %d is first, want %d", f.Buf[f.Head].Hop, popped)
			}
			f.Head++
			popped++
			arrived = max(arrived, popped)
			f.Arrived = max(f.Arrived, f.Head)
		}
		if arrived < pushed && rng.IntN(3) == 0 {
			arrived++
			f.Arrived++
		}
		switch rng.IntN(6) {
		case 0:
			before := len(f.Buf)
			taken := int(f.Trim())
			if taken != before-len(f.Buf) {
				t.Fatalf("%d items are removed, and %d reported", before-len(f.Buf), taken)
			}
		case 1:
			other.Reset().Take(&f)
			f, other = other, f
		}
		left := len(f.Buf) - int(f.Head)
		if int(pushed-popped) != left || arrived-popped != f.Arrived-f.Head || f.Empty() != (left == 0) {
			t.Fatalf("%d items of which %d have arrived, want %d and %d", left, f.Arrived-f.Head, pushed-popped,
				arrived-popped)
		}
	}
}

type number int

func (n number) Before(o number) bool { return n < o }

// A heap yields its elements in order. Otherwise a timer would expire late.
func TestHeapYieldsTheLeast(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	var h MinHeap[number]
	var want []number
	for range 3000 {
		x := number(rng.IntN(1000))
		switch {
		case len(want) == 0 || rng.IntN(2) == 0:
			h.Push(x)
			want = append(want, x)
		case rng.IntN(2) == 0:
			h.Replace(x)
			want[0] = x
		default:
			got := h.Pop()
			if got != want[0] {
				t.Fatalf("%d is first, want %d", got, want[0])
			}
			want = want[1:]
		}
		slices.Sort(want)
		if len(h) != len(want) || len(h) > 0 && h[0] != want[0] {
			t.Fatalf("%d elements, want %d", len(h), len(want))
		}
	}
}
