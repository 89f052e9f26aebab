package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
)

// An address is looked up once. What is known of hosts does not depend on how many addresses there are.
func TestAddressesOfRegularRows(t *testing.T) {
	r, _, _ := regularOf(t, "csv", Options{})
	if err := errors.Join(r.book.setOff([]string{"203.0.113.0/24"}), r.book.addLabel("1", "", "web",
		"")); err != nil {
		t.Fatal(err)
	}
	r.book.unclear["both"] = "two nodes have that name"
	long := strings.Repeat("x", 256)
	for text, want := range map[string]*regularAddress{
		"0": {isHost: true}, "1": {node: 1, class: 1, isHost: true}, "4": {node: 4}, "203.0.113.9": {node: -1,
			isOff: true},
		"203.0.114.9": {node: -1}, "both": nil, long: {node: -1}, long + "x": nil,
	} {
		got := r.address([]byte(text))
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%.20s: %+v, want %+v", text, got, want)
		}
		if want != nil && r.address([]byte(text)) != got {
			t.Errorf("%.20s is looked up again", text)
		}
	}
	for i := len(r.addresses); i < 1<<18-1; i++ {
		r.addresses[fmt.Sprint("x", i)] = nil
	}
	if r.address([]byte("203.0.114.10")) == nil {
		t.Errorf("%d addresses are too many", len(r.addresses))
	}
	for text, want := range map[string]bool{"3": true, "203.0.114.11": false, "203.0.113.8": false, "1": true} {
		if (r.address([]byte(text)) != nil) != want || len(r.addresses) != 1<<18 {
			t.Errorf("%s, with %d other addresses: known %v", text, len(r.addresses), !want)
		}
	}
}

// The values of a usual record are in the ranges of a flow that can be simulated. Others are for the SQL.
func TestUsualRecords(t *testing.T) {
	const year2000 = int64(946_684_800e9)
	const latest = int64(1) << 62
	flows, _, _ := regularOf(t, "csv", Options{})
	log, _, _ := regularOf(t, "nfdump", Options{})
	for _, c := range []struct {
		bytes, rate, start, end int64
		flow, record            bool
	}{
		{1, 1, year2000, year2000, true, true}, {0, 1, year2000, year2000, false, true}, {-1, 1, year2000, year2000,
			false, false},
		{1 << 50, 1, year2000, year2000, true, true}, {1<<50 + 1, 1, year2000, year2000, false, false},
		{1 << 48, 4, year2000, year2000, true, true}, {1<<48 + 1, 4, year2000, year2000, false, false},
		{1, 1, year2000, year2000 - 1, false, false}, {1, 1, 5, 5, true, false},
		{1, 1, latest, latest, true, true}, {1, 1, latest + 1, latest + 1, false, false}, {1, 1, latest, latest + 1,
			false, false},
	} {
		v := &regularRecord{bytes: c.bytes, rate: c.rate, start: instant{ns: c.start}, end: instant{ns: c.end}}
		if flows.isUsual(v) != c.flow || log.isUsual(v) != c.record {
			t.Errorf("%+v: as a flow %v, as a record %v", c, flows.isUsual(v), log.isUsual(v))
		}
	}
}

// Records are rejected for the reasons of the SQL, in its order. The bytes of addresses that are not hosts
// are summed up. A TCP packet without data has 40 to 60 bytes, and 20 more with IPv6.
func TestReasonsOfRegularRows(t *testing.T) {
	r, _, rejects := regularOf(t, "nfdump", Options{SamplingRate: 2, OffFabric: []string{"203.0.113.0/24"}})
	err := errors.Join(r.book.setOff([]string{"203.0.113.0/24"}), r.book.addHost("row 1", "fd00::1", "2"))
	if err != nil {
		t.Fatal(err)
	}
	rows := [][2]string{
		{"203.0.113.9,x,1,2,6,3,0", noBytes}, {"0,203.0.113.9,1,2,6,3,1000", offFabric},
		{"203.0.113.9,1,1,2,6,3,1000", offFabric},
		{"x,y,1,2,6,3,1000", unknownSrc}, {"0,y,1,2,6,3,1000", unknownDst}, {"4,1,1,2,6,3,7", unknownSrc},
		{"1,1,1,2,6,3,1000", sameHost},
		{"0,1,1,2,6,3,119", ""}, {"0,1,1,2,6,3,120", acksAlone}, {"0,1,1,2,6,3,180", acksAlone}, {"0,1,1,2,6,3,181",
			""},
		{"fd00::1,1,1,2,6,3,240", acksAlone}, {"fd00::1,1,1,2,6,3,241", ""}, {"1,fd00::1,1,2,6,3,181", ""},
		{"0,1,1,2,17,3,120", ""}, {"0,1,1,2,6,,120", ""}, {"0,1,1,2,6,0,1", ""}, {"x,0,1,2,6,3,4", unknownSrc},
	}
	var want []string
	for i, row := range rows {
		if !r.take(t, nfdumpRow, rowAt(int64(i), row[0]), int64(i+1)) {
			t.Errorf("%s is not regular", row[0])
		}
		if row[1] != "" {
			want = append(want, fmt.Sprintf("file=log row=%d reverse=false reason=%s raw=%s", i+1, row[1],
				rowAt(int64(i), row[0])))
		}
	}
	reasons, err := r.writeRejects(t.Context(), "log", "")
	if err != nil || !slices.Equal(rejects.rows, want) {
		t.Errorf("%v, rejects\n%s\nwant\n%s", err, strings.Join(rejects.rows, "\n"), strings.Join(want, "\n"))
	}
	got := ""
	for _, reason := range reasons {
		got += reason.String() + "\n"
	}
	example := func(i int) string {
		return fmt.Sprintf("(first: row %d: %s)\n", i, rowAt(int64(i-1),
			rows[i-1][0]))
	}
	counts := "3 × " + acksAlone + " " + example(9) + "3 × " + unknownSrc + " " + example(4) +
		"2 × " + offFabric + " " + example(2) + "1 × " + unknownDst + " " + example(5) +
		"1 × " + noBytes + " " + example(1) + "1 × " + sameHost + " " + example(7)
	if got != counts {
		t.Errorf("reasons\n%swant\n%s", got, counts)
	}
	for end, want := range []string{"[{x 2 2008 } {4 1 14 }]", "[{y 1 2000 }]"} {
		most, err := r.mostUnknown(t.Context(), fileWork{regular: r}, end)
		if err != nil || fmt.Sprint(most) != want {
			t.Errorf("end %d: %v, %v; want %s", end, most, err, want)
		}
	}
}

// Rows that declare themselves not to be flows are set aside, unless an end may be several nodes.
func TestRegularRowsThatAreSetAside(t *testing.T) {
	r, _, rejects := regularOf(t, "vpc", Options{})
	r.book.unclear["both"] = "two nodes have that name"
	const header = "srcaddr dstaddr bytes start end action log_status"
	for row, want := range map[string]bool{
		"0 1 9 1769850000 1769850001 REJECT OK": true, "- - - 1769850000 1769850001 - NODATA": true,
		"both 1 9 1769850000 1769850001 REJECT OK": false, "0 both 9 1769850000 1769850001 REJECT OK": false,
	} {
		if r.take(t, header, row, 1) != want {
			t.Errorf("%s: regular %v", row, !want)
		}
	}
	if r.timed != 0 || r.rejects.n != 2 {
		t.Errorf("%d rows have times, %d rejects", r.timed, r.rejects.n)
	}
	semicolons, _, _ := regularOf(t, "nfdump", Options{})
	semicolons.separator = ';'
	if err := semicolons.reject([]byte("1;2;3"), 5, noBytes); err != nil {
		t.Fatal(err)
	}
	_, err := semicolons.writeRejects(t.Context(), "log", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.writeRejects(t.Context(), "log", "")
	if err != nil || len(rejects.rows) != 2 {
		t.Errorf("%q, %v", rejects.rows, err)
	}
	aside := map[string]bool{}
	for i := range r.format.aside {
		r.format.aside[i].addReasons(aside)
	}
	if len(aside) != 3 || !aside["action is REJECT"] || !aside["log-status is NODATA"] ||
		!aside["log-status is SKIPDATA"] {
		t.Errorf("reasons %v", aside)
	}
}

// Rejects of both kinds of rows are written in the order of rows, each once, in batches.
func TestRejectsAreMergedInOrder(t *testing.T) {
	r, _, rejects := regularOf(t, "csv", Options{})
	r.o.Open = parquet.OpenFile
	staged := filepath.Join(r.dir, "staged.parquet")
	file, err := os.Create(staged)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := parquet.NewWriter(schema.Rejects, file)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Rejects.Arrow())
	defer b.Release()
	for row := range int64(9000) {
		if row%3 != 0 {
			if err := r.reject(fmt.Appendf(nil, "raw %d", row), row, noBytes); err != nil {
				t.Fatal(err)
			}
			continue
		}
		b.Field(0).(*array.StringBuilder).Append("log")
		b.Field(1).(*array.Int64Builder).Append(row)
		b.Field(2).(*array.BooleanBuilder).Append(row%2 == 0)
		b.Field(3).(*array.StringBuilder).Append("other")
		b.Field(4).(*array.StringBuilder).Append(fmt.Sprint("raw ", row))
	}
	batch := b.NewRecord()
	defer batch.Release()
	if err := errors.Join(w.Write(batch), w.Close()); err != nil {
		t.Fatal(err)
	}
	reasons, err := r.writeRejects(t.Context(), "log", staged)
	if err != nil || len(rejects.rows) != 9000 {
		t.Fatalf("%d rejects, %v", len(rejects.rows), err)
	}
	for row, got := range rejects.rows {
		want := fmt.Sprintf("file=log row=%d reverse=false reason=%s raw=raw %[1]d", row, noBytes)
		if row%3 == 0 {
			want = fmt.Sprintf("file=log row=%d reverse=%v reason=other raw=raw %[1]d", row, row%2 == 0)
		}
		if got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	if len(reasons) != 2 || reasons[0].Rows != 6000 || reasons[1].Rows != 3000 ||
		reasons[1].Example != "row 0: raw 0" {
		t.Errorf("%+v", reasons)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other, _, _ := regularOf(t, "csv", Options{})
	if err := other.reject([]byte("raw"), 1, noBytes); err != nil {
		t.Fatal(err)
	}
	if _, err = other.writeRejects(ctx, "log", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("of a context that is done: %v", err)
	}
}

// The bytes of an address stay below the largest number that is reported.
func TestBytesOfAnAddressDoNotOverflow(t *testing.T) {
	var s addressSum
	for range 10_000 {
		s.add(&regularRecord{bytes: 1 << 47, rate: 8})
	}
	if s.rows != 10_000 || s.bytes != 9_000_000_000_000_000_000 {
		t.Errorf("%+v", s)
	}
	a := &regularAddress{unknown: [2]addressSum{{3, 70}, s}}
	u := UnknownAddress{Rows: 1, Bytes: 5}
	a.addTo(&u, 0)
	if u.Rows != 4 || u.Bytes != 75 {
		t.Errorf("%+v", u)
	}
	a.addTo(&u, 0) // nothing remains
	a.addTo(&u, 1)
	if u.Rows != 10_004 || u.Bytes != 9_000_000_000_000_000_000 {
		t.Errorf("%+v", u)
	}
	var none *regularAddress
	none.addTo(&u, 0)
}
