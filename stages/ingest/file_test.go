package ingest

import (
	"strings"
	"testing"
)

// A share of the rows may be rejected, and exactly this share is accepted. The second direction of a row is
// another row. Rows that are set aside do not count.
func TestShareOfRejects(t *testing.T) {
	for _, c := range []struct {
		rows, reverse, rejects, aside int64
		limit                         float64
		want                          bool
	}{
		{100, 0, 29, 0, 0.29, true}, {100, 0, 30, 0, 0.29, false}, {0, 0, 0, 0, 0, true}, {5, 0, 0, 0, 0, true},
		{5, 0, 1, 0, 0, false}, {5, 0, 5, 0, 1, true}, {60, 40, 10, 0, 0.1, true}, {60, 39, 10, 0, 0.1, false},
		{10, 0, 6, 5, 0.1, true}, {10, 0, 7, 5, 0.1, false}, {4, 0, 4, 4, 0, true},
	} {
		err := CheckRejects("log", Tally{Rows: c.rows, Reverse: c.reverse, Rejects: c.rejects, SetAside: c.aside},
			c.limit)
		if (err == nil) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The error of too many rejects counts the rows, gives examples, and says how times with a date can be read.
func TestErrorOfRejects(t *testing.T) {
	const time = "start_ns is not an integer"
	for i, c := range []struct {
		tally Tally
		want  string
	}{
		{Tally{Rows: 4, Rejects: 3, SetAside: 1, Reasons: []RejectCount{
			{Reason: "r", Rows: 2, Example: "row 1: x"}, {Reason: "aside", Rows: 1, Example: "row 2: y",
				SetAside: true}}},
			"log: 2 of 4 rows cannot be simulated, more than the accepted 10% (--max-rejects): " +
				"2 × r (first: row 1: x)" +
				"; set aside, and not counted: 1 rows: 1 × aside (first: row 2: y)"},
		{Tally{Rows: 4, Reverse: 1, Rejects: 1, Reasons: []RejectCount{
			{Reason: time, Rows: 1, Example: "row 1: 2026-01-31 09:00:00,x"}}},
			"log: 1 of 5 directions of 4 rows cannot be simulated, more than the accepted 10% (--max-rejects): 1 × " +
				time +
				" (first: row 1: 2026-01-31 09:00:00,x); times such as 2026-01-31 09:00:00 are read by function " +
				"datetime_ns of a --mapping"},
		{Tally{Rows: 4, Rejects: 1, Reasons: []RejectCount{{Reason: time, Rows: 1,
			Example: "2026-01-31T09:00:00.5Z"}}},
			"(first: 2026-01-31T09:00:00.5Z); times such as 2026-01-31T09:00:00.5Z are read by " +
				"function rfc3339_ns of a " +
				"--mapping"},
		{Tally{Rows: 4, Rejects: 1, Reasons: []RejectCount{{Reason: time, Rows: 1, Example: "row 1: x"}}},
			"(first: row 1: x)"},
		{Tally{Rows: 4, Rejects: 1, Reasons: []RejectCount{{Reason: "r", Rows: 1, Example: "2026-01-31 09:00:00"}}},
			"(first: 2026-01-31 09:00:00)"},
		{Tally{Rows: 4, Rejects: 1, Reasons: []RejectCount{{Reason: unknownSrc, Rows: 1, Example: "row 1: x",
			Unknown: []UnknownAddress{{Address: "x", Bytes: 5, Switch: "x is a switch"}}}}},
			"(first: row 1: x)\nmost bytes: x with 5 bytes. x is a switch"},
	} {
		err := CheckRejects("log", c.tally, 0.1)
		if err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%d: %v, want %s", i, err, c.want)
		}
	}
}

// A flow has at most 2^50 bytes, and all of them 2^62, so that no sum overflows.
func TestLimitsOfBytes(t *testing.T) {
	for _, c := range []struct {
		largest int64
		bytes   float64
		want    bool
	}{{1 << 50, 1 << 62, true}, {1<<50 + 1, 1 << 62, false}, {1, 1<<62 + 1024, false}, {0, 0, true}} {
		m := merged{largest: c.largest, bytes: c.bytes}
		if m.fits() != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
}
