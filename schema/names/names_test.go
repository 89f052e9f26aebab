package names

import "testing"

func TestDidYouMean(t *testing.T) {
	all := []string{"leaf1", "leaf2", "spine1", "storage", "web", "fra-spine1"}
	for _, c := range []struct{ asked, want string }{
		{"spin1", `; did you mean "spine1"?`},
		{"storge", `; did you mean "storage"?`},
		{"LEAF1", `; did you mean "leaf1" or "leaf2"?`},
		{"zzzzzzzzzzzz", ""}, {"fw-internet", ""}, {"backup", ""},
	} {
		got := DidYouMean(c.asked, all)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.asked, got, c.want)
		}
	}
	got := DidYouMean("a", nil)
	if got != "" {
		t.Errorf("without names: %q", got)
	}
}
