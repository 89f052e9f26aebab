package traffic

import (
	"database/sql"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"parsimon/queries/duckdb"
	"parsimon/schema/columns"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

const secondNS = int64(1e9)

// written returns the flows that Write makes of intervals and of flows that stay whole.
func written(t *testing.T, in Input, whole []workload.Row, parts []part) []workload.Row {
	t.Helper()
	rows, _ := writtenTables(t, in, whole, parts)
	return rows
}

// writtenTables returns the flows, and the rows of table dependencies.
func writtenTables(
	t *testing.T, in Input, whole []workload.Row, parts []part,
) (rows []workload.Row, waits []wait) {
	t.Helper()
	var wholeTable, partTable, out, after tables.Memory
	if err := workload.RowTable.Write(&wholeTable, whole); err != nil {
		t.Fatal(err)
	}
	rec := columns.RecordOf(Parts, parts, func(p part) columns.Row {
		return columns.Row{
			"start_ns": p.StartNS, "end_ns": p.EndNS, "bytes": p.Bytes, "connection_id": p.Connection, "src": p.Src,
			"dst": p.Dst, "service": p.Service, "vnet": p.VNet, "dscp": p.DSCP, "kind": p.Kind,
		}
	})
	partTable.Records = append(partTable.Records, rec)
	d := &Divided{nextID: 1000}
	streams := Streams{wholeTable.Read(), partTable.Read()}
	if err := d.Write(t.Context(), in, 1, streams, Sinks{&out, &after}); err != nil {
		t.Fatal(err)
	}
	for _, rec := range out.Records {
		rows = columns.Append(rows, rec)
	}
	for _, rec := range after.Records {
		waits = columns.Append(waits, rec)
	}
	if d.Waits != int64(len(waits)) {
		t.Errorf("%d dependencies, Divided.Waits is %d", len(waits), d.Waits)
	}
	return rows, waits
}

// threeParts has an interval of each model, of 30, 60 and 90 seconds.
func threeParts() []part {
	return []part{
		{StartNS: 0, EndNS: 30 * secondNS, Bytes: 1_234_567, Connection: 3, Kind: int16(Messages)},
		{StartNS: 10 * secondNS, EndNS: 70 * secondNS, Bytes: 7_654_321, Connection: 4, Kind: int16(Paced)},
		{StartNS: 20 * secondNS, EndNS: 110 * secondNS, Bytes: 999_999, Connection: 5, Kind: int16(Bulk)},
	}
}

// all is the whole time of a workload.
func all(rules Rules) Input { return Input{Rules: rules, FromNS: math.MinInt64, ToNS: math.MaxInt64} }

func rulesOf(t *testing.T, texts ...string) Rules {
	t.Helper()
	rules := Rules{}
	for _, text := range texts {
		service, model, _ := strings.Cut(text, "=")
		r, err := ParseRule(model, nil)
		if err != nil {
			t.Fatal(err)
		}
		rules[service] = r
	}
	return rules
}

// If bytes of an interval were lost, sent twice or sent at another time, links would have another load than
// in the log.
func TestEveryIntervalHasItsBytes(t *testing.T) {
	parts := threeParts()
	whole := []workload.Row{{ID: 1, Connection: 1, StartNS: 15 * secondNS, SizeBytes: 77}}
	rows := written(t, all(nil), whole, parts)
	bytes := map[int64]int64{}
	counts := map[int64]int{}
	ids := map[int64]bool{}
	for i, r := range rows {
		bytes[r.Connection] += r.SizeBytes
		counts[r.Connection]++
		ids[r.ID] = true
		if i > 0 && r.StartNS < rows[i-1].StartNS {
			t.Fatalf("flow %d starts at %d ns, before the flow in the row above", r.ID, r.StartNS)
		}
		if r.Background != (r.Connection == 4) || r.Synthetic != (r.Connection != 1) {
			t.Errorf("connection %d: background %v, synthetic %v", r.Connection, r.Background, r.Synthetic)
		}
		for _, p := range parts {
			if r.Connection == p.Connection && (r.StartNS < p.StartNS || r.StartNS >= p.EndNS || r.SizeBytes < 1) {
				t.Errorf("%d bytes start at %d ns, outside the interval %+v", r.SizeBytes, r.StartNS, p)
			}
		}
	}
	for _, p := range parts {
		if bytes[p.Connection] != p.Bytes {
			t.Errorf("connection %d sends %d bytes, want %d", p.Connection, bytes[p.Connection], p.Bytes)
		}
	}
	// 1,234,567 bytes are 77 messages of 16,000 bytes and the rest; 7,654,321 are 1,914 pieces of up to 4,000.
	if counts[1] != 1 || counts[3] != 78 || counts[4] != 1914 || counts[5] != 1 {
		t.Errorf("flows by connection: %v", counts)
	}
	if len(ids) != len(rows) {
		t.Errorf("%d ids of %d flows", len(ids), len(rows))
	}
}

// If the flows of a part of the time depended on where the part begins, --from and --to would show other
// traffic than the whole run has at that time.
func TestPartHasTheFlowsOfTheWhole(t *testing.T) {
	from := 25 * secondNS
	to := 55 * secondNS
	in := all(nil)
	content := func(rows []workload.Row) (list []string) {
		for _, r := range rows {
			if r.StartNS >= from && r.StartNS < to {
				list = append(list, fmt.Sprint(r.Connection, r.StartNS, r.SizeBytes))
			}
		}
		return list
	}
	parts := threeParts()[:2]
	want := content(written(t, in, nil, parts))
	in.FromNS = from
	in.ToNS = to
	rows := written(t, in, nil, parts)
	got := content(rows)
	if !slices.Equal(got, want) || len(got) != len(rows) {
		t.Errorf("%d flows, %d within the part, want %d", len(rows), len(got), len(want))
	}
	// Bulk is the exception: it has the share of its bytes.
	rows = written(t, in, nil, threeParts()[2:])
	if len(rows) != 1 || rows[0].StartNS != from || rows[0].SizeBytes != 333_333 {
		t.Errorf("bulk within the part: %+v", rows)
	}
}

// A closed connection has at most as many messages at a time as its rule says: each message waits for the one
// that many before it, in the whole connection. Otherwise, a slow network would have any number of messages
// of a client that never sends a request before the reply to the last one.
func TestMessagesOfAClosedConnectionWait(t *testing.T) {
	parts := []part{
		{EndNS: secondNS, Bytes: 480_000, Connection: 1, Kind: int16(Messages)},
		{EndNS: secondNS, Bytes: 320_000, Connection: 2, Kind: int16(Messages)},
		{StartNS: secondNS, EndNS: 2 * secondNS, Bytes: 160_000, Connection: 1, Kind: int16(Messages)},
	}
	whole := []workload.Row{{ID: 1, Connection: 9, StartNS: secondNS / 2, SizeBytes: 77}}
	rows, waits := writtenTables(t, all(rulesOf(t, "*=messages:16KB:burst=2:closed")), whole, parts)
	of := map[int64][]int64{} // rows by connection
	var want []wait
	for row, r := range rows {
		sent := append(of[r.Connection], int64(row))
		of[r.Connection] = sent
		before := len(sent) - 3 // two are sent at a time
		if before < 0 {
			continue
		}
		after := sent[before]
		want = append(want, wait{Row: int64(row), ID: r.ID, After: after, AfterID: rows[after].ID})
	}
	if len(want) != 56 || !slices.Equal(waits, want) {
		t.Errorf("%d dependencies of 40 and 20 messages, want %d: %+v", len(waits), len(want),
			waits[:min(3, len(waits))])
	}
}

// Flows of ranges of time are those of the whole, with the same ids. Otherwise, windows in which message
// sizes are varied would have other traffic than the run, and the effect of a size would be chance.
func TestRangesHaveTheFlowsOfTheWhole(t *testing.T) {
	points := []workload.SizePoint{{Bytes: 1000, Percent: 50}, {Bytes: 20_000, Percent: 100}}
	sizes, err := workload.NewSizeCDF(points)
	if err != nil {
		t.Fatal(err)
	}
	parts := append(threeParts(),
		part{StartNS: 40 * secondNS, EndNS: 41 * secondNS, Bytes: 500_000, Connection: 6, Kind: int16(Messages)},
		part{StartNS: 60 * secondNS, EndNS: 120 * secondNS, Bytes: 900_000, Connection: 7, Kind: int16(Messages)})
	whole := []workload.Row{{ID: 1, Connection: 1, StartNS: 15 * secondNS, SizeBytes: 77},
		{ID: 2, Connection: 2, StartNS: 51 * secondNS, SizeBytes: 78}}
	ranges := [][2]int64{{12 * secondNS, 13 * secondNS}, {50 * secondNS, 52 * secondNS}, {69e9, 71e9}}
	for name, in := range map[string]Input{
		"fixed sizes":           all(nil),
		"drawn sizes":           all(Rules{OtherServices: {Sizes: sizes}}),
		"bursts":                all(rulesOf(t, "*=messages:3KB:burst=7")),
		"other sizes and parts": {FromNS: 11 * secondNS, ToNS: 70 * secondNS, Variation: Variation{SizeFactor: 3}},
	} {
		var want []workload.Row
		for _, r := range written(t, in, whole, parts) {
			if slices.ContainsFunc(ranges, func(x [2]int64) bool { return r.StartNS >= x[0] && r.StartNS < x[1] }) {
				want = append(want, r)
			}
		}
		in.Starts = ranges
		got := written(t, in, whole, parts)
		if len(want) < 50 || !slices.Equal(got, want) {
			t.Errorf("%s: %d flows, want %d; %+v, want %+v", name, len(got), len(want), got[:1], want[:1])
		}
	}
}

// A variation changes what is assumed, and nothing that a rule states.
func TestVariationsOfAssumedMessages(t *testing.T) {
	parts := []part{{EndNS: secondNS, Bytes: 480_000, Connection: 1, Kind: int16(Messages)}}
	for _, c := range []struct {
		rule   string
		v      Variation
		flows  int
		starts int
	}{
		{"", Variation{}, 30, 30},
		{"", Variation{SizeFactor: 3}, 10, 10},
		{"", Variation{Burst: 8}, 30, 4},
		{"*=messages:burst=5", Variation{Burst: 8}, 30, 6},
		{"*=messages:48KB", Variation{SizeFactor: 3, Burst: 8}, 10, 10},
	} {
		in := all(nil)
		if c.rule != "" {
			in.Rules = rulesOf(t, c.rule)
		}
		in.Variation = c.v
		starts := map[int64]bool{}
		rows := written(t, in, nil, parts)
		for _, r := range rows {
			starts[r.StartNS] = true
		}
		if len(rows) != c.flows || len(starts) != c.starts {
			t.Errorf("%q, %+v: %d flows at %d times, want %d at %d", c.rule, c.v, len(rows), len(starts), c.flows,
				c.starts)
		}
	}
}

// If messages of a burst began at other times, or bytes depended on bursts, a rule would describe another
// application than the user states.
func TestMessagesOfABurstBeginTogether(t *testing.T) {
	const n = 100_003
	p := part{EndNS: 1000 * secondNS, Bytes: n * 16_000, Connection: 9}
	rows := written(t, all(rulesOf(t, "*=messages:16KB:burst=8")), nil, []part{p})
	sizes := map[int64]int{} // of bursts, by start
	for _, r := range rows {
		sizes[r.StartNS]++
	}
	counts := map[int]int{}
	for _, size := range sizes {
		counts[size]++
	}
	if len(rows) != n || counts[8] != n/8 || counts[3] != 1 || len(counts) != 2 {
		t.Errorf("%d messages, number of bursts by size %v; want %d of 8 and one of 3", len(rows), counts, n/8)
	}
	var perSecond [1000]float64
	for at := range sizes {
		perSecond[at/secondNS]++
	}
	mean := float64(len(sizes)) / 1000
	variance := 0.0
	for _, k := range perSecond {
		variance += (k - mean) * (k - mean) / 1000
	}
	ratio := variance / mean
	if ratio < 0.85 || ratio > 1.15 {
		t.Errorf("the variance of bursts per second is %.2f times their mean, want 1: a Poisson process", ratio)
	}
}

// Messages at equal distances, or all at the beginning, would meet other queues than those of a Poisson
// process.
func TestMessagesArePoisson(t *testing.T) {
	const n = 100_000
	p := part{EndNS: 1000 * secondNS, Bytes: n * 16_000, Connection: 9}
	rows := written(t, all(nil), nil, []part{p})
	if len(rows) != n {
		t.Fatalf("%d messages, want %d", len(rows), n)
	}
	var counts [1000]float64 // by second; mean 100
	for _, r := range rows {
		counts[r.StartNS/secondNS]++
	}
	variance := 0.0
	for _, c := range counts {
		variance += (c - 100) * (c - 100) / 1000
	}
	if variance < 85 || variance > 115 { // 100 ± 3.4 standard errors
		t.Errorf("variance of the messages in a second is %v, want that of a Poisson process, 100", variance)
	}
	d := 0.0 // Kolmogorov and Smirnov's distance from the uniform distribution
	for i, r := range rows {
		d = max(d, math.Abs(float64(r.StartNS)/float64(p.EndNS)-(float64(i)+0.5)/n))
	}
	if d > 1.95/math.Sqrt(n) { // exceeded with a probability of 0.1%
		t.Errorf("the starts are %v from uniform", d)
	}
}

// If pieces of paced traffic came in bursts, background would cause queues that the connection does not.
func TestPiecesAreEvenlySpaced(t *testing.T) {
	rows := written(t, all(nil), nil, threeParts()[1:2])
	distance := float64(60*secondNS) / float64(len(rows))
	for i := 1; i < len(rows); i++ {
		ns := rows[i].StartNS - rows[i-1].StartNS
		if math.Abs(float64(ns)-distance) > 1 {
			t.Fatalf("piece %d begins %d ns after the one before, want %.0f", i, ns, distance)
		}
	}
	if rows[0].StartNS > 10*secondNS+int64(distance) {
		t.Errorf("the first piece begins at %d ns", rows[0].StartNS)
	}
	for bytes, want := range map[int64]int64{1: 1, 4000: 1, 4001: 2, 8000: 2, 8001: 3} {
		got := piecesOf(&part{Bytes: bytes}, 1).left()
		if got != want {
			t.Errorf("%d bytes are %d pieces, want %d", bytes, got, want)
		}
	}
}

// divideCase is a connection of table intervals, with equal records of 60 s if gap is 0.
type divideCase struct {
	name       string
	service    string
	records    int
	lengthNS   int64 // of a record
	bytes      int64 // of a record
	packets    string
	want       int // a Kind; -1: it stays whole
	wantStated int // with a rule for every service
}

const linkBytes = 75_000_000_000 // what 10 Gbps carry in 60 s

// The choice of a model must not depend on more than the documented limits.
func TestRuleAtItsEdges(t *testing.T) {
	minute := 60 * secondNS
	cases := []divideCase{
		{"two records in two minutes", "a", 2, minute, 1000, "1", -1, -1},
		{"two records with a message", "a", 2, minute, 8000, "8", -1, -1},
		{"two records with more than a message", "a", 2, minute, 8001, "8", 0, 2},
		{"two records in more than two minutes", "a", 2, minute + 1, 1_000_000, "1000", 0, 2},
		{"two small records in more than two minutes", "a", 2, minute + 1, 1000, "1", 0, 2},
		{"three small short records", "a", 3, secondNS, 1000, "1", 0, 2},
		{"one record of two minutes", "a", 1, 2 * minute, 1000, "1", -1, -1},
		{"one record of more than two minutes", "a", 1, 2*minute + 1, 1000, "1", 0, 2},
		{"three short records", "a", 3, secondNS, 1_000_000, "1000", 0, 2},
		{"one record of a minute", "a", 1, minute, 1_000_000, "1000", -1, -1},
		{"one record of an hour", "a", 1, 60 * minute, 1_000_000, "1000", 0, 2},
		{"packets of 80 bytes", "a", 3, minute, 80_000, "1000", 1, 2},
		{"packets of more than 80 bytes", "a", 3, minute, 80_001, "1000", 0, 2},
		{"packets of 80 bytes at a high rate", "a", 3, minute, linkBytes, "1000000000", 1, 2},
		{"a quarter of the link", "a", 3, minute, linkBytes / 4, "10000000", 2, 2},
		{"less than a quarter of the link", "a", 3, minute, linkBytes/4 - 1, "10000000", 0, 2},
		{"packets of 700 bytes", "a", 3, minute, 35_000_000_000, "50000000", 2, 2},
		{"packets of less than 700 bytes", "a", 3, minute, 34_999_999_999, "50000000", 0, 2},
		{"packets of unknown size", "a", 3, minute, linkBytes / 4, "NULL", 2, 2},
		// Records that overlap are cut, and a piece of them may have less than half a packet.
		{"intervals of less than half a packet", "a", 3, minute, 60, "0", 0, 2},
		{"few bytes in packets of unknown size", "a", 3, minute, 60, "NULL", 0, 2},
		{"a service with a rule", "db", 3, minute, linkBytes, "50000000", 0, 0},
	}
	chosen := kinds(t, rulesOf(t, "db=messages"), cases)
	stated := kinds(t, rulesOf(t, "db=messages:1KB", "*=bulk"), cases)
	for i, c := range cases {
		if chosen[i] != c.want || stated[i] != c.wantStated {
			t.Errorf("%s: %d, and %d with a rule for every service; want %d and %d", c.name, chosen[i], stated[i],
				c.want, c.wantStated)
		}
	}
}

// opened returns a database with tables flows and intervals of the cases, and the input that reads them.
func opened(t *testing.T, rules Rules, cases []divideCase) (*sql.DB, Input) {
	t.Helper()
	db, err := duckdb.Open(t.Context(), duckdb.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // it was only read
	n := topologytest.MustClos(t, topologytest.SmallClos(4))
	in := all(rules)
	in.Flows = "flows"
	in.Intervals = "intervals"
	in.Network = n
	in.Dir = t.TempDir()
	run := func(format string, args ...any) {
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf(format, args...)); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
	}
	hosts := n.Hosts()
	run("CREATE TABLE flows (flow_id BIGINT, src INTEGER, dst INTEGER, size_bytes BIGINT, start_ns BIGINT, " +
		"service VARCHAR, vnet VARCHAR, synthetic_start BOOLEAN, dscp SMALLINT, connection_id BIGINT, " +
		"background BOOLEAN)")
	run("CREATE TABLE intervals (flow_id BIGINT, start_ns BIGINT, end_ns BIGINT, bytes BIGINT, packets BIGINT)")
	for id, c := range cases {
		run("INSERT INTO flows VALUES (%d, %d, %d, %d, 0, %s, 'v', true, 7, %d, false)", id, hosts[0], hosts[1],
			c.bytes*int64(c.records), duckdb.Quote(c.service), id)
		for k := range c.records {
			at := int64(k) * c.lengthNS
			run("INSERT INTO intervals VALUES (%d, %d, %d, %d, %s)", id, at, at+c.lengthNS, c.bytes, c.packets)
		}
	}
	return db, in
}

// kinds returns the model of each connection.
func kinds(t *testing.T, rules Rules, cases []divideCase) (list []int) {
	t.Helper()
	db, in := opened(t, rules, cases)
	d, err := Divide(t.Context(), db, in)
	if err != nil {
		t.Fatal(err)
	}
	for id, c := range cases {
		var kind, n int
		text := fmt.Sprintf("SELECT coalesce(any_value(kind), -1), count(*) FROM %s WHERE connection_id = %d",
			duckdb.ScanParquet(d.PartsFile), id)
		if err := db.QueryRowContext(t.Context(), text).Scan(&kind, &n); err != nil {
			t.Fatal(err)
		}
		whole := 0
		text = fmt.Sprintf("SELECT count(*) FROM %s WHERE flow_id = %d", duckdb.ScanParquet(d.WholeFile), id)
		if err := db.QueryRowContext(t.Context(), text).Scan(&whole); err != nil {
			t.Fatal(err)
		}
		if kind >= 0 && (n != c.records || whole != 0) || kind < 0 && whole != 1 {
			t.Errorf("%s: %d intervals and %d whole flows", c.name, n, whole)
		}
		list = append(list, kind)
	}
	if err := d.Remove(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(in.Dir)
	if err != nil || len(left) != 1 { // the models
		t.Errorf("%d files are left, %v", len(left), err)
	}
	return list
}

// The summary must say which sizes are guesses.
func TestGroupsSayWhatIsAssumed(t *testing.T) {
	minute := 60 * secondNS
	cases := []divideCase{
		{"", "kafka-eu", 3, minute, 3000, "NULL", 0, 0}, {"", "web", 3, minute, 2000, "NULL", 0, 0},
		{"", "db", 3, minute, 1000, "NULL", 0, 0}, {"", "acks", 3, minute, 40, "1", 1, 1},
	}
	db, in := opened(t, rulesOf(t, "db=messages:8KB"), cases)
	d, err := Divide(t.Context(), db, in)
	if err != nil {
		t.Fatal(err)
	}
	want := []Group{
		{Service: "kafka-eu", Model: "messages", Connections: 1, Bytes: 9000, SizeBytes: 16_000, Burst: 1},
		{
			Service: "web", Model: "messages", Connections: 1, Bytes: 6000, SizeBytes: 16_000, Burst: 1,
			Assumed: true,
		},
		{Service: "db", Model: "messages", Connections: 1, Bytes: 3000, SizeBytes: 8000, Burst: 1},
		{Service: "acks", Model: "paced", Kind: Paced, Connections: 1, Bytes: 120, SizeBytes: 4000},
	}
	if !slices.Equal(d.Groups, want) {
		t.Errorf("groups %+v\nwant %+v", d.Groups, want)
	}
	notes := Notes(d.Groups)
	const guess = "which is a guess"
	if len(notes) != 4 || !strings.Contains(notes[1], guess) || strings.Contains(notes[2], guess) {
		t.Errorf("notes %q", notes)
	}
}

// Nothing in a lake is trusted: such intervals would stop the stream or divide by zero.
func TestImpossibleIntervalsAreRefused(t *testing.T) {
	for _, bad := range []string{"5, 5, 1, 1", "5, 4, 1, 1", "0, 9, 0, 1", "0, 9, -5, NULL", "0, 9, 5, -1",
		"0, 9223372036854775807, 5, 1"} {
		db, in := opened(t, nil, []divideCase{{"", "web", 3, secondNS, 3000, "NULL", 0, 0}})
		if _, err := db.ExecContext(t.Context(), "INSERT INTO intervals VALUES (0, "+bad+")"); err != nil {
			t.Fatal(err)
		}
		_, err := Divide(t.Context(), db, in)
		if err == nil || !strings.Contains(err.Error(), "flow 0 ") {
			t.Errorf("(%s): %v", bad, err)
		}
	}
}

// Such a number of flows would fill the disk before anybody sees an estimate.
func TestTooManyFlowsAreRefused(t *testing.T) {
	db, in := opened(t, rulesOf(t, "web=messages:1B"),
		[]divideCase{{"", "web", 3, secondNS, 1 << 32, "NULL", 0, 0}})
	_, err := Divide(t.Context(), db, in)
	if err == nil || !strings.Contains(err.Error(), `service "web"`) {
		t.Errorf("error %v", err)
	}
}

// An invalid rule must not be treated as a valid one.
func TestParseRule(t *testing.T) {
	named := func(name string) (*workload.SizeCDF, error) {
		if name != "cache" {
			return nil, fmt.Errorf("no %s", name)
		}
		return workload.NewSizeCDF([]workload.SizePoint{{Bytes: 10, Percent: 50}, {Bytes: 20, Percent: 100}})
	}
	for text, want := range map[string]string{
		"messages": "messages", "messages:16KB": "messages:16000", "messages:5": "messages:5", "paced": "paced",
		"bulk": "bulk", "messages:cache": "messages:cache",
		"messages:16KB:burst=8": "messages:16000:burst=8", "messages:burst=2": "messages:burst=2",
		"messages:burst=1": "messages", "messages:burst=1000000": "messages:burst=1000000",
		"messages:cache:burst=3":       "messages:cache:burst=3",
		"messages:closed":              "messages:closed",
		"messages:16KB:burst=8:closed": "messages:16000:burst=8:closed",
	} {
		r, err := ParseRule(text, named)
		if err != nil || r.Text != want {
			t.Errorf("%s: %q, %v", text, r.Text, err)
		}
	}
	for _, bad := range []string{
		"", "message", "messages:", "messages:0", "messages:2TiB", "messages:x", "paced:5", "bulk:",
		"messages:-5",
		"messages:1.5B", "messages:burst=", "messages:burst=0", "messages:burst=x",
		"messages:burst=2:16KB", "messages:closed:burst=2", "messages:closed:closed", "paced:closed",
		"messages:16KB:burst=2:burst=2", "messages:16KB:16KB", "paced:burst=2", "messages:burst=1000001",
	} {
		if _, err := ParseRule(bad, named); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A lake is not trusted: an interval that no ingest writes is an error that names its flow. Otherwise, it
// would be a division by zero, or bytes at a time that overflows.
func TestIntervalsThatNoIngestWritesAreRefused(t *testing.T) {
	good := divideCase{"good", "a", 3, int64(60e9), 60, "1", 0, 2}
	for name, bad := range map[string]string{
		"ends before it starts": "start_ns = 70000000000, end_ns = 60000000000",
		"ends when it starts":   "end_ns = start_ns",
		"no bytes":              "bytes = 0",
		"bytes below 0":         "bytes = -1",
		"packets below 0":       "packets = -1",
		"ends beyond 2^62":      "end_ns = 4611686018427387905",
		"starts before -2^62":   "start_ns = -4611686018427387905",
	} {
		db, in := opened(t, nil, []divideCase{good, good})
		_, err := db.ExecContext(t.Context(), "UPDATE intervals SET "+bad+" WHERE flow_id = 1 AND start_ns = 0")
		if err != nil {
			t.Fatal(err)
		}
		_, err = Divide(t.Context(), db, in)
		if err == nil || !strings.Contains(err.Error(), "flow 1 of workload_intervals has an interval") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Connections may become 2^32 flows, and not more: ids of a variation begin above them.
func TestLargestNumberOfFlows(t *testing.T) {
	db, in := opened(t, rulesOf(t, "web=messages:1B"), nil)
	for bytes, want := range map[int64]bool{1 << 32: true, 1<<32 + 1: false} {
		q := &query{db: db, Input: in}
		q.exec(t.Context(), fmt.Sprintf("CREATE OR REPLACE TABLE groups AS SELECT 'web' AS service, "+
			"0::SMALLINT AS kind, 1::BIGINT AS connections, %d::HUGEINT AS bytes", bytes))
		groups := q.groups(t.Context())
		if len(groups) != 1 || (q.err == nil) != want ||
			q.err != nil && !strings.Contains(q.err.Error(), "connections with 4.29 GB become 4294967297 flows") {
			t.Errorf("%d flows: %+v, %v", bytes, groups, q.err)
		}
	}
	p := part{EndNS: secondNS, Bytes: 5, Connection: 1}
	in = all(nil)
	rows := written(t, in, nil, []part{p})
	in.Variation.Burst = 2
	varied := written(t, in, nil, []part{p})
	if rows[0].ID != 1000 || varied[0].ID != 1000+1<<33 {
		t.Errorf("the first flow has the id %d, and %d in a variation", rows[0].ID, varied[0].ID)
	}
}

// Messages of drawn sizes have all bytes of the interval, and the last one has the rest.
func TestDrawnMessagesHaveAllBytes(t *testing.T) {
	points := []workload.SizePoint{{Bytes: 100, Percent: 50}, {Bytes: 900, Percent: 100}}
	sizes, err := workload.NewSizeCDF(points)
	if err != nil {
		t.Fatal(err)
	}
	for connection := range int64(20) {
		w := &writer{Input: all(Rules{OtherServices: {Sizes: sizes}}), seed: 1}
		m := w.messagesOf(&part{EndNS: secondNS, Bytes: 10_000 + connection, Connection: connection}, "")
		var drawn []int64
		sum := int64(0)
		for left := m.left(); left > 0; left-- {
			_, size, ok := m.next()
			if !ok || m.left() != left-1 {
				t.Fatalf("%d messages are left after one of %d", m.left(), left)
			}
			drawn = append(drawn, size)
			sum += size
		}
		_, _, more := m.next()
		if more || sum != 10_000+connection {
			t.Errorf("messages of %d bytes in all, want %d", sum, 10_000+connection)
		}
		if slices.Min(drawn[:len(drawn)-1]) < 100 || drawn[len(drawn)-1] < 1 {
			t.Errorf("messages of %v bytes", drawn)
		}
	}
}

// The summary has at most six remarks about models, and the number of groups without one.
func TestNotesOfGroups(t *testing.T) {
	groups := []Group{
		{Service: "web", Kind: Messages, Connections: 3, Bytes: 5e9, SizeBytes: 16_000, Burst: 1, Assumed: true},
		{Service: "db", Kind: Messages, Connections: 1, Bytes: 4e9, SizeBytes: 8000, Burst: 2},
		{Service: "rpc", Kind: Messages, Connections: 1, Bytes: 3e9, SizeBytes: 8000, Burst: 1, Closed: true},
		{Kind: Bulk, Connections: 1, Bytes: 2e9},
		{Service: "acks", Kind: Paced, Connections: 1, Bytes: 1e9, SizeBytes: 4000},
		{Kind: Bulk}, {Kind: Bulk}, {Kind: Bulk},
	}
	notes := Notes(groups)
	want := []string{
		"service web: 5 GB of 3 long connections are simulated as messages of 16 KB, which is a guess, at " +
			"independent times (--traffic)",
		"service db: 4 GB of 1 long connection are simulated as messages of 8 KB, 2 of them at a time " +
			"(--traffic)",
		"service rpc: 3 GB of 1 long connection are simulated as messages of 8 KB, at most 1 of a connection " +
			"at a time (--traffic)",
		"no service: 2 GB of 1 long connection are simulated as one transfer in each interval of the log " +
			"(--traffic)",
		"service acks: 1 GB of 1 long connection are simulated as background traffic at the rate of each " +
			"interval of the log, without slowdowns (--traffic)",
	}
	if !slices.Equal(notes[:5], want) {
		t.Errorf("notes\n%q, want\n%q", notes[:5], want)
	}
	if len(notes) != 7 || notes[6] != "2 more groups of connections are divided into flows" {
		t.Errorf("notes %q", notes[5:])
	}
	if len(Notes(groups[:6])) != 6 {
		t.Errorf("notes of six groups: %q", Notes(groups[:6]))
	}
}

// A part, or a range of starts, includes its beginning and excludes its end. Otherwise, two parts of a
// workload would both have a flow, or neither. Pieces of two connections begin at 5 and at 6 ns, in the order
// of the connections.
func TestEdgesOfParts(t *testing.T) {
	parts := []part{
		{StartNS: 5, EndNS: 7, Bytes: 8000, Connection: 1, Kind: int16(Paced)},
		{StartNS: 5, EndNS: 7, Bytes: 8000, Connection: 2, Kind: int16(Paced)},
	}
	whole := []workload.Row{{ID: 9, StartNS: 6, SizeBytes: 77}}
	first := "1000 at 5; 1001 at 5; "
	for _, c := range []struct {
		fromNS, toNS int64
		starts       [][2]int64
		want         string
	}{
		{0, 9, nil, first + "9 at 6; 1002 at 6; 1003 at 6; "},
		{5, 7, nil, first + "9 at 6; 1002 at 6; 1003 at 6; "},
		{5, 6, nil, first},
		{6, 7, nil, "9 at 6; 1000 at 6; 1001 at 6; "},
		{0, 5, nil, ""},
		{7, 9, nil, ""},
		{0, 9, [][2]int64{{6, 7}}, "9 at 6; 1002 at 6; 1003 at 6; "},
		{0, 9, [][2]int64{{5, 6}}, first},
		{0, 9, [][2]int64{{0, 5}, {7, 9}}, ""},
		{0, 9, [][2]int64{{0, 1}, {6, 9}}, "9 at 6; 1002 at 6; 1003 at 6; "},
	} {
		in := Input{FromNS: c.fromNS, ToNS: c.toNS, Starts: c.starts}
		var flows []workload.Row // Divide selects the flows that stay whole
		if c.fromNS <= 6 && 6 < c.toNS {
			flows = whole
		}
		got := ""
		for _, r := range written(t, in, flows, parts) {
			got += fmt.Sprintf("%d at %d; ", r.ID, r.StartNS)
		}
		if got != c.want {
			t.Errorf("from %d to %d, starts %v: %s want %s", c.fromNS, c.toNS, c.starts, got, c.want)
		}
	}
}

// Rows of dependencies count all rows of flows, also those that are already written.
func TestRowsAreCountedAcrossBatches(t *testing.T) {
	w := &writer{out: Sinks{Flows: &tables.Memory{}}}
	for _, want := range []int64{3, 5} {
		w.rows = make([]workload.Row, want-w.before)
		if err := w.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.before != want || len(w.rows) != 0 {
			t.Errorf("%d rows are written, and %d are left; want %d and none", w.before, len(w.rows), want)
		}
	}
}
