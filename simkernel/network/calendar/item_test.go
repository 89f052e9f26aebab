package calendar

import (
	"math/rand/v2"
	"testing"
)

// The parts of an item's bits do not overlap and lie where the comment of Item says. If they moved, numbers
// of packets would be read from the wrong bits.
func TestPartsOfBits(t *testing.T) {
	flags := FlagAck | FlagMarked | FlagLast | flagControl | FlagNack
	if flags != 0b1_1111 || AttemptMask != 0b11_1110_0000 || FlagBits+AttemptBits+TagBits != 17 {
		t.Errorf("flags %b, attempts %b, %d bits before the number", flags, AttemptMask,
			FlagBits+AttemptBits+TagBits)
	}
}

// A pause frame carries its class and whether it begins or ends a pause. It is a control and a pause. The
// start of a flow is a control only, and packets and ACKs are neither.
func TestPauseFrames(t *testing.T) {
	for class := range int32(8) {
		for _, pause := range []bool{false, true} {
			want := Toggle{AtPS: 77, Class: class, Pause: pause}
			it := PauseFrame(want)
			if it.PauseOf() != want || !it.IsControl() || !it.IsPause() {
				t.Errorf("%+v is read as %+v", want, it.PauseOf())
			}
		}
	}
	start := Item{Bits: FlagStart}
	if !start.IsControl() || start.IsPause() {
		t.Error("the start of a flow is a control, and no pause")
	}
	for _, bits := range []uint32{0, FlagAck, FlagMarked | FlagLast, FlagAck | FlagNack, AttemptMask} {
		it := Item{Bits: bits}
		if it.IsControl() || it.IsPause() {
			t.Errorf("%b is no control", bits)
		}
	}
}

// Items arrive by time, and those of one time by link. Flow starts are behind everything else, and ACKs that
// the NIC must send come first. Both orders of the package agree.
func TestOrderOfArrivals(t *testing.T) {
	at := func(ps int64, link int32) Arrival { return Arrival{Item: Item{AtPS: ps}, Link: link} }
	order := []Arrival{at(1, 5), at(2, AnswerBit|3), at(2, 0), at(2, 3), at(2, StartLink), at(3, 0)}
	for i := range order {
		for k := range order {
			before := order[i].before(&order[k])
			if before != (i < k) || (CompareArrivals(order[i], order[k]) < 0) != before {
				t.Errorf("%d before %d: %v", i, k, before)
			}
		}
		if order[i].IsAnswer() != (i == 1) {
			t.Errorf("%d is an answer: %v", i, order[i].IsAnswer())
		}
	}
}

// The words of a port set say which words of its bits are not 0, for any number of ports. A port that they
// miss is not served.
func TestPortSetFindsItsPorts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, ports := range []int{1, 64, 65, 4096, 4097, 20_000} {
		s := newPortSet(ports)
		if len(s.bits) != (ports+63)/64 || len(s.words) != (len(s.bits)+63)/64 {
			t.Fatalf("%d ports: %d words of bits, %d words", ports, len(s.bits), len(s.words))
		}
		in := map[int32]bool{int32(ports - 1): true, 0: true}
		for range 20 {
			in[rng.Int32N(int32(ports))] = true
		}
		for port := range in {
			s.Add(port)
		}
		check := func(all bool) {
			t.Helper()
			for i, word := range s.bits {
				found := s.words[i/64]>>(i%64)&1 != 0
				if found != (all || word != 0) {
					t.Fatalf("%d ports: word %d of bits is found: %v", ports, i, found)
				}
			}
			past := len(s.bits) % 64
			if past > 0 && s.words[len(s.words)-1]>>past != 0 {
				t.Fatalf("%d ports: words that do not exist are found", ports)
			}
		}
		for port := range int32(ports) {
			if (s.bits[port/64]>>(port%64)&1 != 0) != in[port] {
				t.Fatalf("%d ports: port %d is in the set: %v", ports, port, !in[port])
			}
		}
		check(false)
		s.lookEverywhere()
		check(true)
	}
}
