package text

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// Without escaping, the name of a scenario could send control sequences to a terminal, or write a line that
// looks like another scenario. Line ends of the format stay.
func TestNamesWriteNoLines(t *testing.T) {
	type id string
	var b strings.Builder
	var a Answer
	a.Linef("name %s\nnext %-6v|%.*f", "\x1b]0;x\a\u202e\r\nfalse line", id("a\nb"), 1, 7.25)
	a.Linef("%v", fmt.Errorf("file %s", "x\ny"))
	if err := a.Write(&b, "text"); err != nil {
		t.Fatal(err)
	}
	want := `name \x1b]0;x\x07\u202e\r\nfalse line` + "\n" + `next a\nb   |7.2` + "\n" + `file x\ny` + "\n"
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

// Small differences are not zero, and five digits distinguish them.
func TestDigits(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{"+0.0%": Percent(0), "-0.040%": Percent(-0.0004),
		"+1.2%": Percent(0.012), "1.0004": Figure(1.0004), "0.012345": Figure(0.0123451),
		"12.346": Figure(12.34561),
		"123457": Figure(123456.7),
		"0.0000": Figure(0)} {
		if got.String() != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
