package report

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestNumbersInWords(t *testing.T) {
	for want, got := range map[string]string{
		"1.006×": times(1.006), "4.77×": times(4.7701), "12.4×": times(12.41), "123×": times(123.4),
		"12,346×": times(12345.6), "–": times(math.NaN()),
		"58%": percent(0.577), "2.8%": percent(0.0277), "99.7%": percent(0.997), "100%": percent(1),
		"more than 99.9%": percent(0.99999), "0%": percent(0),
		"+1.3%": signed(0.0131), "−0.2%": signed(-0.002), "0.0%": signed(-0.0001),
		"1,234,567": thousands(1234567), "−1,000": thousands(-1000), "17": thousands(17),
		"41.8 GB": bytesText(41_790_000_000), "999 B": bytesText(999),
		"726 ms": spanText(725756753), "5 s": spanText(5e9), "24h0m0s": spanText(86400e9), "1m30s": spanText(90e9),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for word, want := range map[string]string{"lake": "lake", "a b": "'a b'", "": "''", "it's": `'it'\''s'`,
		"$(rm)": "'$(rm)'", "/x/y-1.html": "/x/y-1.html"} {
		got := ShellQuote(word)
		if got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
	}
}

// The JSON of an answer has each text once, and no character that could end a script.
func TestAnswerJSON(t *testing.T) {
	a := &answer{columns: []string{"name", "n", "x", "none"}, rows: [][]any{
		{"a", int64(123456789012), 1.23456789, nil}, {"</script>\u2028", int64(2), nil, nil}, {"a", nil, 1e-9, nil},
		{nil, int64(4), 0.5, nil},
	}}
	got, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"columns":["name","n","x","none"],"values":[{"at":[0,1,0,-1],"of":["a","\u003c/script\u003e\u2028"]},[123456789012,2,null,4],[1.23457,null,1e-09,0.5],[null,null,null,null]]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if empty, err := json.Marshal(&answer{}); err != nil || string(empty) != `{"columns":[],"values":[]}` {
		t.Errorf("an empty answer is %s, %v", empty, err)
	}
}

// comparison returns a content with the given change of p99 and its interval.
func comparison(change, lo, hi float64) *content {
	rows := &answer{columns: []string{"service", "vnet", "size_bin", "hops", "quantile", "base_slowdown",
		"slowdown", "change", "change_lo", "change_hi", "base_fct_ms", "fct_ms", "fct_change", "fct_change_lo",
		"fct_change_hi"},
		rows: [][]any{{"all", "all", "all", "all", 0.99, 4.0, 4 * (1 + change), change, lo, hi, 2.0, 1.0, -0.5,
			-0.6, -0.4}}}
	loads := &answer{columns: []string{"link_id", "link", "newly_failed", "base_flows", "base_load", "load",
		"links", "changed_links"}, rows: [][]any{
		{int64(1), "a → b", true, int64(50), 0.12, 0.0, int64(3), int64(2)},
		{int64(2), "a → c", false, int64(40), 0.13, 0.25, int64(3), int64(2)},
		{int64(3), "c → d", false, int64(9), 0.6, 0.6, int64(3), int64(2)}}}
	links := &answer{columns: []string{"link_id", "tail_share"},
		rows: [][]any{{int64(1), 0.0}, {int64(2), 0.02}, {int64(3), 0.98}}}
	explaining := &answer{columns: []string{"link", "difference_ns", "tail_flows"},
		rows: [][]any{{"c → d", 1500.0, int64(20)}}}
	headline := &answer{columns: []string{"flows"}, rows: [][]any{{int64(1000)}}}
	return &content{base: &Estimate{}, answers: map[string]*answer{"what_changed": rows, "load_changes": loads,
		"link_load_and_tail": links, "what_changed_links": explaining, "headline": headline}}
}

// A change is reported if its interval does not include zero and it is at least 1%. The reasons are changes
// of loads.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		change, lo, hi float64
		changed        bool
		meaning        string
		reasons        []string
	}{
		{0.2, 0.1, 0.3, true, "slower",
			[]string{"a → b failed. In the base it carried 50 flows, 5.0% of all, at a load of 12%",
				" wait 1.5 µs longer there"}},
		{-0.2, -0.3, -0.1, true, "faster", []string{"The largest difference is"}},
		{0.02, -0.01, 0.05, false, "no change beyond chance", []string{
			"2 of 3 links carry a load that differs", "largest rise is at a → c, from 13% to 25%",
			"lose 98% of their time at links whose load is the same", "are loaded 25% at " +
				"most"}},
		{0.001, 0.0005, 0.002, false, "less than 1% apart", nil},
	} {
		v := comparison(c.change, c.lo, c.hi).verdict()
		if v.Changed != c.changed || !strings.Contains(v.Sentences[0], c.meaning) {
			t.Errorf("%v: changed %v, said %q", c.change, v.Changed, v.Sentences)
		}
		for _, want := range c.reasons {
			if !strings.Contains(strings.Join(v.Reasons, "\n"), want) {
				t.Errorf("%v: the reasons lack %q: %q", c.change, want, v.Reasons)
			}
		}
	}
	// A change of one service is reported even if all flows together did not change.
	c := comparison(0.001, -0.1, 0.1)
	web := append([]any{"web"}, c.answers["what_changed"].rows[0][1:]...)
	web[7] = 0.4
	web[8] = 0.3
	web[9] = 0.5
	c.answers["what_changed"].rows = append(c.answers["what_changed"].rows, web)
	v := c.verdict()
	if !v.Changed || v.Measure != "Slowdown" ||
		!strings.Contains(v.Sentences[1], "p99 of service web: 4.00× in the base, 4.00× now, +40.0%") {
		t.Errorf("%+v", v)
	}
	// If slowdowns are relative to different ideal FCTs, FCTs are compared.
	c.answers["ideal"] = &answer{columns: []string{"flows", "pairs"}, rows: [][]any{{int64(9), int64(9)}}}
	if v := c.verdict(); v.Measure != "FCT" ||
		!strings.Contains(strings.Join(v.Sentences, "\n"), "p99: 2 ms in the base, 1 ms now, −50.0%") {
		t.Errorf("%+v", v)
	}
	if (&content{}).verdict() != nil {
		t.Error("a verdict without a comparison")
	}
}
