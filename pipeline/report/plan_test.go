package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/queries"
)

// Every chart has a place in the report, a condition that exists, and a line in the table of the page.
// Without this test, a chart that sections.json does not list, or lists with a misspelled condition, would
// not appear.
func TestEveryChartIsInTheReport(t *testing.T) {
	sections, err := plan()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	conditions := (&content{}).conditions()
	listed := map[string]bool{}
	for _, s := range sections {
		for _, chart := range s.Charts {
			if _, err := queries.Get(chart.ID); err != nil {
				t.Errorf("sections.json: %v", err)
			}
			if _, known := conditions[chart.Of]; chart.Of != "" && !known {
				t.Errorf("sections.json: %s has the condition %q, want one of %v", chart.ID, chart.Of, conditions)
			}
			if listed[chart.ID] {
				t.Errorf("sections.json lists %s twice", chart.ID)
			}
			listed[chart.ID] = true
		}
	}
	specifications, err := filepath.Glob("../../queries/*.vl.json")
	if err != nil || len(specifications) < 10 {
		t.Fatalf("%d specifications, error %v", len(specifications), err)
	}
	for _, path := range specifications {
		name := strings.TrimSuffix(filepath.Base(path), ".vl.json")
		if !listed[name] {
			t.Errorf("sections.json does not list %s, so no report shows it", name)
		}
		if !strings.Contains(string(readme), "`"+name+"`") {
			t.Errorf("the table of README.md lacks %s", name)
		}
	}
}
