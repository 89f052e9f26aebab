package gate

import (
	"errors"
	"testing"
)

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
	} {
		g, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Fails(want.value); got != want.fails {
			t.Errorf("%s of %v: %v", text, want.value, got)
		}
		_, err = Judge([]Gate{g}, func(Gate) (float64, error) { return want.value, nil })
		if failed := (*Error)(nil); errors.As(err, &failed) != want.fails {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "p99", "p98_slowdown > 1", "host=3 p99_slowdown > 1", "p99_slowdown > 5%", "p99_slowdown == 5", "service p99_slowdown > 1", "p99_slowdown > x"} {
		if g, err := Parse(text); err == nil {
			t.Errorf("%q is %+v", text, g)
		}
	}
	g, err := Parse(`service="big data" p99_slowdown > 5`)
	if err != nil || g.Filter["service"] != "big data" || g.Quantile != 0.99 {
		t.Errorf("%+v, %v", g, err)
	}
}
