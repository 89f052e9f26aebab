package workloads

import (
	"errors"
	"strings"
	"testing"

	"parsimon/stages/ingest"
)

// Ingesting a known file with another mapping, or with another domain of names, is an error. Otherwise its
// rows would be ignored, and half of the bytes of a log would be missing silently.
func TestSecondMapping(t *testing.T) {
	d := newTrace(t, 1)
	d.ingest(t, 0)
	tr := d.trace(0)
	other := *tr.Mappings[0]
	other.Name = "reverse"
	other.Rows += "-- the other direction\n"
	tr.Mappings = []*ingest.Mapping{&other}
	if _, err := Ingest(t.Context(), tr, d.settings()); err == nil ||
		!strings.Contains(err.Error(), "by mapping vpc") {
		t.Error(err)
	}
	tr = d.trace(0)
	tr.Domains = []string{"example.com"}
	if _, err := Ingest(t.Context(), tr, d.settings()); err == nil ||
		!strings.Contains(err.Error(), "another --domain") {
		t.Error(err)
	}
}

// Files that cannot be read are skipped and listed if the user requests it. Otherwise they make the ingest of
// all files fail.
func TestSkipDamaged(t *testing.T) {
	d := newTrace(t, 1)
	d.write(t, "day1.log", "")
	d.write(t, "day2.log", vpcHeader)
	tr := d.trace(0, 1, 2)
	if _, err := Ingest(t.Context(), tr, d.settings()); err == nil {
		t.Error("an empty file is no error")
	}
	tr.SkipDamaged = true
	r, err := Ingest(t.Context(), tr, d.settings())
	if err != nil || len(r.Skipped) != 2 || r.Flows != 100 || r.NewFiles != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	tr.Sources = tr.Sources[1:2]
	if _, err := Ingest(t.Context(), tr, d.settings()); !errors.As(err, new(*SkippedError)) {
		t.Errorf("nothing but damaged files: %v", err)
	}
}

// Without a name, sources of which the lake has none form a new workload. If the lake has one of them, the
// others are added to its workload.
func TestUnnamedWorkloads(t *testing.T) {
	d := newTrace(t, 2)
	run := func(days ...int) *Report {
		tr := d.trace(days...)
		tr.Workload = ""
		r, err := Ingest(t.Context(), tr, d.settings())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := run(0)
	second := run(1)
	if first.Workload == second.Workload || second.Flows != 100 {
		t.Errorf("the second joins the first: %+v", second)
	}
	both := run(0)
	if both.Workload != first.Workload || both.KnownFiles != 1 {
		t.Errorf("the first again: %+v", both)
	}
}
