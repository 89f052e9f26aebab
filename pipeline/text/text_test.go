package text

import (
	"strings"
	"testing"
)

// Names from a lake or a trace cannot send control sequences to a terminal. Line ends stay.
func TestEscapes(t *testing.T) {
	var b strings.Builder
	p := Printer{W: &b}
	p.Linef("name %s\nnext %d%%", "\x1b]0;x\a\u202e\r", 7)
	if _, err := (Writer{&b}).Write([]byte("é\x1b[2J\n")); err != nil || p.Err != nil {
		t.Fatal(err, p.Err)
	}
	want := `name \x1b]0;x\x07\u202e\r` + "\nnext 7%\n" + `é\x1b[2J` + "\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
