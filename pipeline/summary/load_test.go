package summary

import (
	"strings"
	"testing"
)

// Without the warning, a short workload with a heavy tail would be assumed to have the requested load.
func TestLoadAboveWhatWasAsked(t *testing.T) {
	for _, of := range []struct {
		load *LoadResult
		want string
	}{
		{nil, ""},
		{&LoadResult{Asked: 0.5, Reached: 0.6, Link: "a → b"}, ""},
		{&LoadResult{Asked: 0.5, Reached: 0.61, Link: "a → b"},
			"a → b, has a load of 0.61, which is 1.22 times the 0.5"},
	} {
		got := of.load.warning()
		if (got == "") != (of.want == "") || !strings.Contains(got, of.want) {
			t.Errorf("%+v: %q, want %q", of.load, got, of.want)
		}
	}
}
