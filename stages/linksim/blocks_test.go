package linksim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"parsimon/simkernel"
)

// Decoding restores the encoded blocks, except zeros at the end. A flow without observations takes no bytes.
func TestBlocksRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		blocks := make([]simkernel.Block, rng.IntN(40))
		for i := range blocks {
			if rng.IntN(2) == 0 {
				blocks[i] = simkernel.Block{NICWaitNS: rng.Int32N(1 << uint(1+rng.IntN(30))),
					UpstreamNS: rng.Int32N(2) * rng.Int32N(1<<20), WaitNS: rng.Int32N(1 << uint(1+rng.IntN(30))),
					Marks: uint16(rng.Uint32() >> uint(16+rng.IntN(16)))}
			}
		}
		if len(blocks) > 0 && rng.IntN(10) == 0 {
			blocks[0] = simkernel.Block{NICWaitNS: math.MaxInt32, WaitNS: math.MaxInt32, Marks: math.MaxUint16}
		}
		got, err := ReadBlocks(nil, AppendBlocks(nil, blocks))
		for len(got) < len(blocks) {
			got = append(got, simkernel.Block{})
		}
		if err != nil || !slices.Equal(got, blocks) {
			t.Fatalf("%v, %v; want %v", got, err, blocks)
		}
	}
	b := AppendBlocks(nil, make([]simkernel.Block, 100))
	if len(b) != 0 {
		t.Errorf("zero blocks take %d bytes", len(b))
	}
}

// Any bytes are either decoded or rejected. Decoded blocks survive a round trip.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte{})
	f.Add(AppendBlocks(nil, []simkernel.Block{{WaitNS: 300, Marks: 5}, {NICWaitNS: 1}}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		blocks, err := ReadBlocks(nil, b)
		if err != nil {
			return
		}
		for _, x := range blocks {
			if x.WaitNS < 0 || x.NICWaitNS < 0 || x.UpstreamNS < 0 {
				t.Fatalf("%+v", x)
			}
		}
		again, err := ReadBlocks(nil, AppendBlocks(nil, blocks))
		for len(again) < len(blocks) {
			again = append(again, simkernel.Block{})
		}
		if err != nil || !slices.Equal(again, blocks) {
			t.Fatalf("%v, %v; want %v", again, err, blocks)
		}
	})
}
