package text

import (
	"fmt"
	"math"
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

// A figure of no flow is an empty field of CSV.
func TestNoFigure(t *testing.T) {
	var b strings.Builder
	var a Answer
	a.Table("a", "b", "c").Add(math.NaN(), Percent(math.NaN()), Figure(1.5))
	if err := a.Write(&b, "csv"); err != nil || b.String() != "a,b,c\n,,1.5\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// Small differences are no zeros, and five digits tell them apart.
func TestDigits(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{"+0.0%": Percent(0), "-0.040%": Percent(-0.0004), "+1.2%": Percent(0.012),
		"1.0004": Figure(1.0004), "0.012345": Figure(0.0123451), "12.346": Figure(12.34561), "123457": Figure(123456.7),
		"0.0000": Figure(0)} {
		if got.String() != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
