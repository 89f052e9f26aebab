package text

import (
	"strings"
	"testing"
)

// Names from a lake or a trace cannot send control sequences to a terminal. Line ends stay.
func TestEscapes(t *testing.T) {
	var b strings.Builder
	var a Answer
	a.Linef("name %s\nnext %d%%", "\x1b]0;x\a\u202e\r", 7)
	if err := a.Write(&b, "text"); err != nil {
		t.Fatal(err)
	}
	want := `name \x1b]0;x\x07\u202e\r` + "\nnext 7%\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
