package units

import "testing"

// Without it, messages say "1 flows".
func TestCounted(t *testing.T) {
	for n, want := range map[int64]string{0: "0 cables", 1: "1 cable", 2: "2 cables", 96: "96 cables"} {
		got := Counted(n, "cable")
		if got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
