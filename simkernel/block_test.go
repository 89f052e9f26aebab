package simkernel

import "testing"

// Blocks are numbered without gaps, contain every packet once, and begin where the previous ones end.
func TestBlocks(t *testing.T) {
	for packets := int64(1); packets < 200; packets++ {
		n, at := int64(0), uint32(0)
		for int64(at) < packets {
			if blockStart(at) != at {
				t.Fatalf("packet %d does not begin a block", at)
			}
			if got, want := BlockPackets(packets, n), min(int64(blockEnd(at)), packets)-int64(at); got != want {
				t.Fatalf("%d packets: block %d has %d, want %d", packets, n, got, want)
			}
			if window := BlockWindow(int(n)); window != int(at)/blockPackets {
				t.Fatalf("block %d is in window %d, its packet %d in %d", n, window, at, at/blockPackets)
			}
			n, at = n+1, blockEnd(at)
		}
		if got := Blocks(packets); got != n {
			t.Fatalf("%d packets have %d blocks, want %d", packets, got, n)
		}
	}
}
