package simkernel

import "testing"

// Blocks are numbered without gaps, contain every packet once, and begin where the previous ones end.
func TestBlocks(t *testing.T) {
	p := DefaultParams()
	for _, window := range []int64{1, 5_000, 18_000, 1 << 30} {
		p.SetWindow(window)
		l := p.Layout()
		if l.singles%MarkBits != 0 || int64(l.singles) < min(2*p.Packets(window), maxSingles) {
			t.Fatalf("window of %d bytes: %d single packets", window, l.singles)
		}
		for packets := int64(1); packets < 400; packets++ {
			checkLayout(t, l, packets)
		}
	}
}

func checkLayout(t *testing.T, l BlockLayout, packets int64) {
	t.Helper()
	n := int64(0)
	at := uint32(0)
	for int64(at) < packets {
		if l.Start(at) != at {
			t.Fatalf("packet %d does not begin a block", at)
		}
		got, want := l.Packets(packets, n), min(int64(l.End(at)), packets)-int64(at)
		if got != want {
			t.Fatalf("%d packets: block %d has %d, want %d", packets, n, got, want)
		}
		if got := l.Of(min(int64(l.End(at)), packets) - 1); got != n {
			t.Fatalf("%d packets: the last packet of block %d is in block %d", packets, n, got)
		}
		window := l.Window(int(n))
		if window != int(at)/MarkBits {
			t.Fatalf("block %d is in window %d, its packet %d in %d", n, window, at, at/MarkBits)
		}
		n = n + 1
		at = l.End(at)
	}
	got := l.Blocks(packets)
	if got != n {
		t.Fatalf("%d packets have %d blocks, want %d", packets, got, n)
	}
}
