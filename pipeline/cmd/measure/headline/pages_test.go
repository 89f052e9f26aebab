package headline

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../../.."

// markCommand takes a few seconds.
const markCommand = "go test ./pipeline/cmd/measure/headline -run TestPages -update"

var update = flag.Bool("update", false, "write the pages, with marks at what is older than the code")

// A figure that is older than the code it measures, or that nobody measured, must not pass for a current one.
func TestPagesHaveTheMeasuredFigures(t *testing.T) {
	results, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	digests, err := Digests(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := Write(root, results, digests); err != nil {
			t.Fatal(err)
		}
	}
	written, err := Pages(root, results, digests)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Sorted(maps.Keys(written)) {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(written[file], "\n")
		for i, line := range strings.Split(string(data), "\n") {
			if i < len(want) && line == want[i] {
				continue
			}
			t.Errorf("%s:%d has figures that are not those of %s, or do not have the mark %s though the code has "+
				"changed since. Mark them with\n\t%s\nor measure them again with\n\tmake headline\nThe line is\n\t%s",
				file, i+1, resultsFile, mark, markCommand, line)
			break
		}
	}
}

// sample is a result of measurement kernel.
func sample() Results {
	return Results{"kernel": {Form: Short, Sources: "now", Values: map[string][]float64{
		"ours-ns": {20, 10, 30}, "reference-ns": {400, 400, 300}}}}
}

// Medians, ratios by round and ranges are what the pages show. A ratio of medians would mix rounds.
func TestPlaceholders(t *testing.T) {
	for template, want := range map[string]string{
		"{kernel.ours-ns} ns":               "20.0 ns",
		"{kernel.ours-ns~}":                 "20.0 (10.0–30.0)",
		"{kernel.reference-ns/ours-ns~}":    "20.0 (10.0–40.0)",
		"{start.run-s} s":                   "– s",
		"{kernel.ours-ns} and {tour:lines}": "20.0 and –",
		"{mark}\n\nText {no placeholder}":   "Text {no placeholder}",
	} {
		got, err := fill(template, sample(), map[string]string{"kernel": "now"})
		if err != nil || got != want {
			t.Errorf("%q gives %q, %v; want %q", template, got, err, want)
		}
	}
}

// If the code has changed, each figure has the mark, and the page says what the mark means.
func TestOlderFiguresAreMarked(t *testing.T) {
	later := map[string]string{"kernel": "later"}
	got, err := fill("{mark}\n\n{kernel.ours-ns} of {start.run-s}", sample(), later)
	want := markText + "\n\n20.0† of –"
	if err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	state := table(sample(), later)
	if !strings.Contains(state, "older than") {
		t.Errorf("the table does not say that the measurement is older: %s", state)
	}
}

// A misspelled figure would always be a dash.
func TestUnknownPlaceholders(t *testing.T) {
	for template, want := range map[string]string{
		"{kernels.ours-ns}":       "no measurement",
		"{kernel.our-ns}":         "no figure",
		"{kernel.ours-ns/theirs}": "no figure",
		"{kernel:ours-ns}":        "no text",
	} {
		_, err := fill(template, sample(), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", template, err, want)
		}
	}
	err := Results{}.Add(Find("kernel"), &Result{Values: map[string][]float64{"our-ns": {1}}})
	if err == nil {
		t.Error("a figure that the list does not name was stored")
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{0: "0.00", 0.0371: "0.037", 0.256: "0.26", 1: "1.00", 9.949: "9.95",
		9.96: "10.0", 17.44: "17.4", 99.6: "100", 393.3: "393", 1343: "1,343", 38880.4: "38,880",
		-1234567: "-1,234,567"} {
		got := Number(x)
		if got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
}

// A page without its marks would silently keep its figures.
func TestPartOfAPage(t *testing.T) {
	const begin = "<!-- speed: written by make headline -->\n"
	const end = "<!-- end of speed -->"
	got, err := replaceBetween("a\n"+begin+"old\n"+end+"\nb\n", "speed", "new\n")
	want := "a\n" + begin + "new\n" + end + "\nb\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for _, page := range []string{"a\n", begin + "b", "a" + end} {
		if _, err := replaceBetween(page, "speed", "new\n"); err == nil {
			t.Errorf("%q has no marks, and no error", page)
		}
	}
}
