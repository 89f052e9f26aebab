package scenario

import (
	"strings"
	"testing"
)

// midnightNS is 2026-01-31 in UTC.
const midnightNS = int64(1769817600e9)

func profiled(t *testing.T) *Scenario {
	t.Helper()
	s, err := FromWorkload("small-2to1", Ingested{
		ID: "day", Digests: []string{"a"}, FirstStartNS: midnightNS + 3600e9, LastStartNS: midnightNS + 7200e9,
		Profiles: true, EndNS: midnightNS + 36_000e9,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func canonical(t *testing.T, s *Scenario) string {
	t.Helper()
	settled, err := s.Settle()
	if err != nil {
		t.Fatal(err)
	}
	return string(settled.Canonical)
}

// Rules that yield other flows must yield another scenario, and two spellings of a rule the same one.
func TestTrafficIsPartOfTheScenario(t *testing.T) {
	ids := map[string]string{}
	for _, rules := range []string{"", "db=messages:16KB", "db=messages:16000", "db=messages:8KB", "db=paced",
		"db=messages:cachefollower", "*=paced", "db=messages:16KB:burst=8", "db=messages:burst=8", "a=b=paced",
		"db=messages:cachefollower:burst=8"} {
		s := profiled(t)
		if rules != "" {
			if err := s.SetTraffic([]string{rules}); err != nil {
				t.Fatal(err)
			}
		}
		text := canonical(t, s)
		same, known := ids[text]
		if known != (rules == "db=messages:16000") {
			t.Errorf("%q is the scenario of %q", rules, same)
		}
		ids[text] = rules
	}
	// Key traffic of a scenario file is the same. It would differ if a burst became part of the name of the
	// service.
	for model, want := range map[string]string{
		"messages:16KB": "db=messages:16000", "messages:16KB:burst=8": "db=messages:16KB:burst=8",
	} {
		s := profiled(t)
		if err := s.SetAll([]Setting{{"traffic.db", model}}); err != nil {
			t.Fatal(err)
		}
		same := ids[canonical(t, s)]
		if same != want {
			t.Errorf("traffic.db %s is the scenario of %q", model, same)
		}
	}
}

// A rule without bytes over time would change nothing, and must not be accepted silently.
func TestTrafficNeedsProfiles(t *testing.T) {
	s := profiled(t)
	s.workload.ingested.Profiles = false
	if err := s.SetTraffic([]string{"db=paced"}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Settle()
	if err == nil || !strings.Contains(err.Error(), "ingest its flow logs again") {
		t.Errorf("error %v", err)
	}
}

// Connections send after the last flow has started. Times of day are those of the first day.
func TestWindowEndsWithTheLastInterval(t *testing.T) {
	s := profiled(t)
	if err := s.SetWindow("09:30", "09:40:30"); err != nil {
		t.Fatal(err)
	}
	_, from, to, _ := s.Ingested()
	if from != midnightNS+34_200e9 || to != midnightNS+34_830e9 {
		t.Errorf("from %d to %d ns", from-midnightNS, to-midnightNS)
	}
	if err := s.SetWindow("10:00", ""); err == nil {
		t.Error("a time after the last interval is accepted")
	}
}
