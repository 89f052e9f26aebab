package variant

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// If a name and its fields did not correspond, a lake would file rows under one variant and describe
// another.
func TestNamesAndFieldsCorrespond(t *testing.T) {
	for name, want := range map[string]Variant{
		"exact":                            {Estimator: "exact"},
		"independent":                      {Estimator: "independent"},
		"flow-1":                           {Estimator: "flow", Passes: 1},
		"flow-2":                           {Estimator: "flow", Passes: 2},
		"independent-cluster-0.05":         {Estimator: "independent", ClusterError: 0.05},
		"independent-cluster-1e-05":        {Estimator: "independent", ClusterError: 1e-5},
		"exact-sampled-48":                 {Estimator: "exact", Windows: 48},
		"flow-2-sampled-7-confidence-99%":  {Estimator: "flow", Passes: 2, Windows: 7, ConfidencePercent: 99},
		"exact-sampled-7-confidence-99.9%": {Estimator: "exact", Windows: 7, ConfidencePercent: 99.9},
	} {
		if got, err := Parse(name); err != nil || got != want || got.String() != name {
			t.Errorf("%s is %+v (%s), %v", name, got, got, err)
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		old, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, stored := range [][]byte{text, old} {
			var got Variant
			if err := json.Unmarshal(stored, &got); err != nil || got != want {
				t.Errorf("%s becomes %+v, %v", stored, got, err)
			}
		}
	}
}

// A directory of a lake, or a manifest, can have any name. One that no program writes must not be read as a
// variant that it resembles, and must not lead out of the lake.
func TestOtherNamesAreRefused(t *testing.T) {
	for _, name := range []string{
		"", "flow-", "flow-0", "flow-02", "flow-3-ablate-waits+marks", "exact-0-1000-buffer-12000000-alpha-0.5",
		"exact-ns3", "independent-cluster-5%", "independent-cluster-0.050", "exact-sampled-0",
		"exact-sampled-4-confidence-95.0%", "exact-confidence-90%", "..", "a/b", "Exact", "exact ",
		strings.Repeat("x", 33),
	} {
		if v, err := Parse(name); err == nil || v != (Variant{}) {
			t.Errorf("%q is read as %+v", name, v)
		}
		text, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, new(Variant)); err == nil {
			t.Errorf("%s is read from JSON", text)
		}
	}
	if err := json.Unmarshal([]byte(`{"estimator": "../../x"}`), new(Variant)); err == nil {
		t.Error("an estimator that leads out of the lake is read from JSON")
	}
}

// The order decides which estimate views show if no run recorded an answer.
func TestBetterVariantsComeFirst(t *testing.T) {
	want := []string{
		"exact", "flow-2", "flow-1", "independent", "independent-cluster-0.05", "independent-cluster-0.5",
		"exact-sampled-48", "flow-2-sampled-48",
	}
	all := make([]Variant, len(want))
	for i, name := range want {
		v, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		all[len(want)-1-i] = v
	}
	slices.SortFunc(all, func(a, b Variant) int {
		if a.Better(b) {
			return -1
		}
		return 1
	})
	for i, v := range all {
		if v.String() != want[i] {
			t.Errorf("place %d: %s, want %s", i, v, want[i])
		}
		if v.Better(v) {
			t.Errorf("%s is better than itself", v)
		}
	}
}

// Users may write the beginning of a long name. If two names have this beginning, neither is chosen.
func TestWithPrefixNeedsOneVariant(t *testing.T) {
	all := []Variant{{Estimator: "exact"}, {Estimator: "exact", Windows: 48}, {Estimator: "flow", Passes: 2}}
	for text, want := range map[string]string{
		"exact": "exact", "exact-s": "exact-sampled-48", "f": "flow-2", "e": "", "x": "",
	} {
		v, found := WithPrefix(all, text)
		if found != (want != "") || v.String() != want {
			t.Errorf("%q finds %s, want %s", text, v, want)
		}
	}
}

// An estimate without a stated level has intervals at 95%, and its name does not state one.
func TestConfidenceOfWindows(t *testing.T) {
	v := Variant{Estimator: "exact"}.OfWindows(3, 95)
	if v.String() != "exact-sampled-3" || v.Confidence() != 95 || !v.Sampled() || !v.WholeNetwork() {
		t.Errorf("%s: confidence %g, sampled %t", v, v.Confidence(), v.Sampled())
	}
	v = v.OfWindows(4, 99)
	if v.String() != "exact-sampled-4-confidence-99%" || v.Confidence() != 99 {
		t.Errorf("%s: confidence %g", v, v.Confidence())
	}
}
