package traffic

import (
	"errors"
	"fmt"
	"testing"

	"parsimon/stages/workload"
)

// A size of messages that begins with a digit is a number of bytes, from 1 byte to 1 TiB. Any other text is
// the name of a distribution.
func TestSizesOfMessages(t *testing.T) {
	errNamed := errors.New("named")
	named := func(string) (*workload.SizeCDF, error) { return nil, errNamed }
	for text, wantNamed := range map[string]bool{
		"9KB": false, "0.5KB": false, "1B": false, "1TiB": false, "websearch": true, "-1B": true, "/x": true,
		":x": true,
	} {
		_, _, err := parseSize(text, named)
		if errors.Is(err, errNamed) != wantNamed || !wantNamed && err != nil {
			t.Errorf("%q is read as a name: %v, %v", text, !wantNamed, err)
		}
	}
	for _, text := range []string{"", "0B", "0.4B", "1.1TiB", "9 parsecs"} {
		if _, _, err := parseSize(text, named); err == nil || errors.Is(err, errNamed) {
			t.Errorf("%q: %v, want a size that is refused", text, err)
		}
	}
}

// Sizes of messages follow from words in the names of services, in any case. Others are assumed.
func TestDefaultSizes(t *testing.T) {
	for service, want := range map[string]int64{"HDFS": 64_000, "my-ceph-1": 64_000, "backup": 64_000,
		"kafka": 16_000, "Broker": 16_000} {
		bytes, known := DefaultSize(service)
		if bytes != want || !known {
			t.Errorf("%s: messages of %d bytes, known %v, want %d", service, bytes, known, want)
		}
	}
	bytes, known := DefaultSize("web")
	if bytes != 16_000 || known {
		t.Errorf("web: messages of %d bytes, known %v, want an assumption of 16000", bytes, known)
	}
}

// Sizes times a factor are rounded to a byte, and are never 0.
func TestFactoredSizes(t *testing.T) {
	for _, c := range []struct {
		bytes  int64
		factor float64
		want   int64
	}{{16_000, 3, 48_000}, {10, 0.25, 3}, {9, 0.25, 2}, {1, 0.1, 1}, {1, 1, 1}} {
		got := FactoredSize(c.bytes, c.factor)
		if got != c.want {
			t.Errorf("%d bytes times %v are %d, want %d", c.bytes, c.factor, got, c.want)
		}
	}
}

// The burst is the end of a rule. It is cut off at its last place, because a name of sizes may have the word.
func TestCutBurst(t *testing.T) {
	for text, want := range map[string][2]string{
		"messages:16KB:burst=8":        {"messages:16KB", ":burst=8"},
		"messages:burst=8":             {"messages", ":burst=8"},
		"messages:16KB":                {"messages:16KB", ""},
		"messages:burst=2:burst=8":     {"messages:burst=2", ":burst=8"},
		"messages:16KB:burst=8:closed": {"messages:16KB", ":burst=8:closed"},
		":burst=8":                     {"", ":burst=8"},
	} {
		before, burst := CutBurst(text)
		if before != want[0] || burst != want[1] {
			t.Errorf("%s is %q and %q, want %q", text, before, burst, want)
		}
	}
}

// A rule names the sizes of its messages by their digest, so that another distribution of the same name is
// another rule. A cache would otherwise return flows of other sizes.
func TestCanonicalRules(t *testing.T) {
	digest := func(sizes *workload.SizeCDF) string { return fmt.Sprint("mean ", sizes.Mean()) }
	for text, want := range map[string]string{
		"messages:16KB:burst=8:closed": "messages:mean 16000:burst=8:closed", "messages:5": "messages:mean 5",
		"messages:burst=2": "messages:burst=2", "messages:burst=1": "messages", "bulk": "bulk", "paced": "paced",
	} {
		r, err := ParseRule(text, nil)
		if err != nil || r.Canonical(digest) != want {
			t.Errorf("%s: %q, want %q; %v", text, r.Canonical(digest), want, err)
		}
	}
}

// A size is assumed if no rule of the service, or of all others, states it. Messages wait for others if one
// rule is closed.
func TestWhatRulesState(t *testing.T) {
	for _, c := range []struct {
		rules          []string
		assumes, waits bool
	}{
		{nil, true, false},
		{[]string{"web=messages"}, true, false},
		{[]string{"web=messages:1KB", "*=messages"}, false, false},
		{[]string{"*=messages:1KB"}, false, false},
		{[]string{"db=messages:1KB:closed"}, true, true},
		{[]string{"web=paced"}, false, false},
		{[]string{"*=bulk", "db=messages:closed"}, false, true},
	} {
		rules := rulesOf(t, c.rules...)
		if rules.Assumes("web") != c.assumes || rules.Waits() != c.waits {
			t.Errorf("%q: a size is assumed %v, messages wait %v", c.rules, rules.Assumes("web"), rules.Waits())
		}
	}
}
