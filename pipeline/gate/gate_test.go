package gate

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// The value alone decides whether a gate fails. The verdict also reports whether the interval contains the
// limit.
func TestChangeInPercent(t *testing.T) {
	g, err := Parse("p99_change > 10%")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Judge([]Gate{g}, func(Gate) (Interval, error) { return Interval{0.165, 0.16, 0.17}, nil })
	if err == nil || err.Error() != "--fail-if 'p99_change > 10%': the value is 16.5% (16% to 17%)" {
		t.Error(err)
	}
}

func TestJudge(t *testing.T) {
	g, err := Parse("p99_slowdown > 5")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x            Interval
		failed, open bool
		bounds       bool
	}{{Interval{5.1, 4.9, 5.3}, true, true, true}, {Interval{4.8, 4.7, 4.9}, false, false, true},
		{Interval{4.9, 4.8, 5.1}, false, true, true}, {Interval{6, 6, 6}, true, false, false}} {
		verdicts, err := Judge([]Gate{g}, func(Gate) (Interval, error) { return c.x, nil })
		v := verdicts[0]
		if v.Failed != c.failed || v.Open != c.open || (v.Lo != nil) != c.bounds || (err != nil) != c.failed {
			t.Errorf("%v: %+v, %v", c.x, v, err)
		}
		if err != nil && strings.Contains(err.Error(), "holds the limit") != c.open {
			t.Errorf("%v: %v", c.x, err)
		}
	}
}

func TestParseAndJudge(t *testing.T) {
	for text, want := range map[string]struct {
		value float64
		fails bool
	}{
		"p99_slowdown > 5":                            {5.1, true},
		"p99_slowdown >= 5":                           {5, true},
		"service=storage p99_slowdown > 5":            {5, false},
		`service="big data" vnet=v1 p50_slowdown < 1`: {0.9, true},
		"p99_change > 10%":                            {0.11, true},
		"p999_change <= -0.5":                         {-0.4, false},
		"load > 80%":                                  {0.81, true},
		"link=leaf1:spine1 load > 0.8":                {0.8, false},
		"service=storage p50_change > 10%":            {math.Inf(1), true}, // no flow has a path
	} {
		g, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got := g.Fails(want.value)
		if got != want.fails {
			t.Errorf("%s of %v: %v", text, want.value, got)
		}
		_, err = Judge([]Gate{g}, func(Gate) (Interval, error) { return Exactly(want.value), nil })
		failed := (*Error)(nil)
		if errors.As(err, &failed) != want.fails {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "p99", "p98_slowdown > 1", "host=3 p99_slowdown > 1", "p99_slowdown > 5%",
		"service=web load > 1", "tier=host-tor p99_slowdown > 1", "p99_slowdown == 5", "service p99_slowdown > 1",
		"p99_slowdown > x"} {
		if g, err := Parse(text); err == nil {
			t.Errorf("%q is %+v", text, g)
		}
	}
	g, err := Parse(`service="big data" p99_slowdown > 5`)
	if err != nil || g.Filter["service"] != "big data" || g.Quantile != 0.99 {
		t.Errorf("%+v, %v", g, err)
	}
}
