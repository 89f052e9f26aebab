// Package headline has the figures of speed that README.md and pipeline/PERFORMANCE.md state. It stores them,
// and writes the pages from templates:
//
//	measurements ─► datasets/results/headline.json ─┬─► datasets/results/headline.md, pipeline/PERFORMANCE.md
//	                templates/*.txt ────────────────┴─► README.md, between marks
//
// A measurement depends on packages, of which its result has a digest. If their code changes, the figures of
// the pages have a mark until the measurement is repeated. A test compares the pages with what this package
// would write.
package headline

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// resultsFile has the results, relative to the root of the repository.
const resultsFile = "datasets/results/headline.json"

// A Result is what a measurement gave.
type Result struct {
	Commit  string  `json:"commit"`
	Before  string  `json:"before,omitempty"` // commit of the program that was measured alternately
	Date    string  `json:"date"`
	Machine string  `json:"machine"`
	Form    string  `json:"form"`    // short or whole
	Sources string  `json:"sources"` // digest of the sources that it depends on
	Seconds float64 `json:"seconds"` // that the measurement took
	// Values have the figures of each round, by name.
	Values map[string][]float64 `json:"values"`
	Texts  map[string]string    `json:"texts,omitempty"`
}

// These are the forms of a measurement. The short form has fewer rounds, and some shorter workloads.
const (
	Short = "short"
	Whole = "whole"
)

// Results are the results of all measurements that have been made, by name.
type Results map[string]*Result

// Load reads the stored results.
func Load(root string) (Results, error) {
	path := filepath.Join(root, resultsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	results := Results{}
	if err := json.Unmarshal(data, &results); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for name, r := range results {
		if r == nil || Find(name) == nil {
			return nil, fmt.Errorf("%s: there is no measurement %q", path, name)
		}
	}
	return results, nil
}

// Store writes the results atomically.
func (r Results) Store(root string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(root, resultsFile)
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Add adds the result of a measurement, whose figures must be those that the list of measurements names.
func (r Results) Add(m *Measurement, result *Result) error {
	for name, values := range result.Values {
		if !slices.Contains(m.Values, name) || len(values) == 0 {
			return fmt.Errorf("measurement %s: %d figures %q, want one of %v", m.Name, len(values), name, m.Values)
		}
	}
	for name := range result.Texts {
		if !slices.Contains(m.Texts, name) {
			return fmt.Errorf("measurement %s: text %q, want one of %v", m.Name, name, m.Texts)
		}
	}
	r[m.Name] = result
	return nil
}

// median returns the middle value, or the mean of the two middle ones.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
