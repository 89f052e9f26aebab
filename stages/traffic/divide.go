package traffic

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed" // of divide.sql
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/units"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// An Input is a part of a workload with the rules for its connections.
type Input struct {
	Flows, Intervals string // SQL of tables workload_flows and workload_intervals
	Network          *topology.Network
	Rules            Rules
	FromNS, ToNS     int64 // of the part; ToNS is excluded
	// Starts are ranges of time, ascending and disjoint. Only flows that start in them are written. Nil: all.
	Starts [][2]int64
	Dir    string
	Variation
}

// A Variation changes what is assumed of messages whose size no rule states. Its flows have other ids.
type Variation struct {
	SizeFactor float64 // of their sizes; 0: 1
	Burst      int64   // number of messages that begin at a time, unless a rule states it; 0: 1
}

// sizes returns the message sizes of a service.
func (in *Input) sizes(service string) *workload.SizeCDF {
	if !in.Rules.Assumes(service) {
		rule, _ := in.Rules.of(service)
		return rule.Sizes
	}
	bytes, _ := DefaultSize(service)
	return fixedSize(FactoredSize(bytes, cmp.Or(in.SizeFactor, 1)))
}

// burst returns the number of messages of a service that begin at a time.
func (in *Input) burst(service string) int64 {
	if in.Burst > 0 && in.Rules.burst(service) == 1 && in.Rules.Assumes(service) {
		return in.Burst
	}
	return in.Rules.burst(service)
}

// Divided is a part of a workload after Divide. The files are in Input.Dir. If no connection of the part is
// divided, Groups is empty and there are no files.
type Divided struct {
	WholeFile string // flows that stay whole, as table flows has them
	PartsFile string // intervals of the other flows, as table Parts has them
	Groups    []Group
	Earlier   Earlier
	Waits     int64 // rows of table dependencies that Write has written
	nextID    int64 // above the ids of all flows of the workload
}

// A Group has the divided connections of one service and model.
type Group struct {
	Service     string `json:"service"`
	Model       string `json:"model"`
	Kind        Kind   `json:"-"`
	Connections int64  `json:"connections"`
	Bytes       int64  `json:"bytes"` // in the part of the workload, to the interval
	// SizeBytes is the mean size of messages, or the size of the pieces of paced traffic. It is 0 for Bulk.
	// Assumed is set if neither a rule nor the name of the service states it.
	SizeBytes float64 `json:"size_bytes"`
	Burst     int64   `json:"burst"` // messages that begin at the same time; 0 unless Messages
	Closed    bool    `json:"closed,omitempty"`
	Assumed   bool    `json:"assumed"`
}

// notesShown is the number of groups that have a remark.
const notesShown = 6

// Notes returns remarks about the models of the largest groups.
func Notes(groups []Group) (notes []string) {
	for i, g := range groups {
		if i == notesShown {
			return append(notes, fmt.Sprintf("%d more groups of connections are divided into flows", len(groups)-i))
		}
		notes = append(notes, g.note())
	}
	return notes
}

// note describes the model of a group.
func (g *Group) note() string {
	what := "as one transfer in each interval of the log"
	switch g.Kind {
	case Messages:
		what = "as messages of " + sizeText(g.SizeBytes)
		if g.Assumed {
			what += ", which is a guess"
		}
		switch {
		case g.Closed:
			what += fmt.Sprintf(", at most %d of a connection at a time", g.Burst)
		case g.Burst > 1:
			what += fmt.Sprintf(", %d of them at a time", g.Burst)
		default:
			what += ", at independent times"
		}
	case Paced:
		what = "as background traffic at the rate of each interval of the log, without slowdowns"
	}
	service := "service " + g.Service
	if g.Service == "" {
		service = "no service"
	}
	return fmt.Sprintf("%s: %s of %s are simulated %s (--traffic)", service, sizeText(float64(g.Bytes)),
		topology.Count(int(g.Connections), "long connection"), what)
}

// sizeText formats a number of bytes.
func sizeText(bytes float64) string { return strings.ToUpper(units.Human(bytes)) + "B" }

// Parts has a row for each interval of a divided connection. Divide writes it, and Write reads it.
var Parts = schema.Table{
	Name: "parts", Doc: "Intervals of divided connections.",
	Grain: "interval", Key: []string{"connection_id", "start_ns"}, Sort: []string{"start_ns", "connection_id"},
	Temporary: true,
	Columns: slices.Concat(
		schema.WorkloadIntervals.Select("start_ns", "end_ns", "bytes"),
		schema.Flows.Select("connection_id", "src", "dst", "service", "vnet", "dscp"),
		[]schema.Column{{Name: "kind", Type: arrow.PrimitiveTypes.Int16, Doc: "a Kind"}},
	),
}

// maxNS bounds the times of intervals, before and after 1970.
const maxNS = int64(1) << 62

// maxFlows bounds the flows that connections are divided into.
const maxFlows = 1 << 32

// Divide chooses a model for every connection of a workload, and writes the files that Write reads. Errors
// name the flow or the service.
func Divide(ctx context.Context, db *sql.DB, in Input) (*Divided, error) {
	q := &query{db: db, Input: in}
	d := &Divided{
		WholeFile: filepath.Join(in.Dir, "whole.parquet"),
		PartsFile: filepath.Join(in.Dir, "traffic.parquet"),
	}
	q.check(ctx)
	q.writeTables(ctx)
	divided := q.copy(ctx, q.divided(), filepath.Join(in.Dir, "divided.parquet"))
	parts := fmt.Sprintf("FROM %s AS i JOIN %s AS d USING (flow_id) JOIN %s AS f USING (flow_id) "+
		"WHERE i.start_ns < %d AND i.end_ns > %d", in.Intervals, divided, in.Flows, in.ToNS, in.FromNS)
	q.exec(ctx, "CREATE TABLE groups AS SELECT f.service, d.kind, count(DISTINCT f.flow_id) AS connections, "+
		"sum(i.bytes::HUGEINT) AS bytes "+parts+" GROUP BY ALL")
	d.Groups = q.groups(ctx)
	d.Earlier = q.earlier(ctx, divided)
	if q.err != nil || len(d.Groups) == 0 {
		return d, q.err
	}
	q.row(ctx, "SELECT max(flow_id) + 1 FROM "+in.Flows, &d.nextID)
	q.copy(ctx, "SELECT i.start_ns, i.end_ns, i.bytes, f.flow_id AS connection_id, f.src, f.dst, f.service, "+
		"f.vnet, f.dscp, d.kind "+parts+" ORDER BY i.start_ns, f.flow_id", d.PartsFile)
	q.copy(ctx, fmt.Sprintf("SELECT f.* FROM %s AS f ANTI JOIN %s AS d USING (flow_id) "+
		"WHERE f.start_ns >= %d AND f.start_ns < %d ORDER BY f.start_ns, f.flow_id",
		in.Flows, divided, in.FromNS, in.ToNS), d.WholeFile)
	return d, q.err
}

// Remove removes the files.
func (d *Divided) Remove() error {
	for _, f := range []string{d.WholeFile, d.PartsFile} {
		if err := os.Remove(f); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// A query makes the statements of Divide. After an error, it does nothing.
type query struct {
	Input
	db  *sql.DB
	err error
}

func (q *query) exec(ctx context.Context, text string) {
	if q.err == nil {
		_, err := q.db.ExecContext(ctx, text)
		q.err = duckdb.FirstLine(duckdb.OrCause(ctx, err))
	}
}

func (q *query) row(ctx context.Context, text string, to ...any) {
	if q.err == nil {
		err := q.db.QueryRowContext(ctx, text).Scan(to...)
		q.err = duckdb.FirstLine(duckdb.OrCause(ctx, err))
	}
}

// copy writes the result of a query to a file, and returns the SQL that reads it.
func (q *query) copy(ctx context.Context, text, file string) string {
	q.exec(ctx, "COPY ("+text+") TO "+duckdb.Quote(file)+" (FORMAT parquet, COMPRESSION snappy)")
	return duckdb.ScanParquet(file)
}

// check checks the intervals: nothing in a lake is trusted.
func (q *query) check(ctx context.Context) {
	bad := int64(-1)
	q.row(ctx, fmt.Sprintf("SELECT coalesce(min(flow_id), -1) FROM %s WHERE end_ns <= start_ns OR bytes < 1 "+
		"OR packets < 0 OR end_ns > %d OR start_ns < -%d", q.Intervals, maxNS, maxNS), &bad)
	if q.err == nil && bad >= 0 {
		q.err = fmt.Errorf("flow %d of workload_intervals has an interval that does not end after it starts, or "+
			"that has no bytes", bad)
	}
}

// writeTables writes the tables of hosts and rules.
func (q *query) writeTables(ctx context.Context) {
	q.exec(ctx, "CREATE TABLE hosts (host INTEGER, bps BIGINT)")
	q.exec(ctx, "CREATE TABLE rules (service VARCHAR, kind SMALLINT)")
	bps := map[int32]int64{}
	for _, l := range q.Network.Links {
		bps[l.Src] = max(bps[l.Src], l.BandwidthBps)
	}
	var rows []string
	insert := func() {
		if len(rows) > 0 {
			q.exec(ctx, "INSERT INTO hosts VALUES "+strings.Join(rows, ", "))
			rows = rows[:0]
		}
	}
	for _, h := range q.Network.Hosts() {
		rows = append(rows, fmt.Sprintf("(%d, %d)", h, bps[h]))
		if len(rows) == 10_000 {
			insert()
		}
	}
	insert()
	for service, r := range q.Rules {
		if service != OtherServices {
			q.exec(ctx, fmt.Sprintf("INSERT INTO rules VALUES (%s, %d)", duckdb.Quote(service), r.Kind))
		}
	}
}

//go:embed divide.sql
var divideSQL string

// divided returns the query of the divided connections and their models.
func (q *query) divided() string {
	other := Kind(-1)
	if r, ok := q.Rules[OtherServices]; ok {
		other = r.Kind
	}
	return expand(divideSQL, map[string]any{
		"flows": q.Flows, "intervals": q.Intervals, "hosts": "hosts", "rules": "rules",
		"whole": Whole(), "ack_packet_bytes": ackPacketBytes,
		"small_packet_bytes": smallPacketBytes, "bulk_share": bulkShare, "other_kind": int(other),
		"messages": int(Messages), "paced": int(Paced), "bulk": int(Bulk),
	})
}

// expand replaces $NAME by the value of NAME.
func expand(text string, values map[string]any) string {
	return os.Expand(text, func(key string) string {
		v, known := values[key]
		if !known {
			panic("traffic: divide.sql has no value of " + key)
		}
		return fmt.Sprint(v)
	})
}

// groups reads the groups, the largest first, and checks the number of flows that they become.
func (q *query) groups(ctx context.Context) (all []Group) {
	if q.err != nil {
		return nil
	}
	total := 0.0
	sum := int64(0)
	text := "SELECT service, kind, connections, least(bytes, 9223372036854775807)::BIGINT FROM groups " +
		"ORDER BY bytes DESC, service, kind"
	q.err = duckdb.Each(ctx, q.db, text, func(rows *sql.Rows) error {
		var g Group
		if err := rows.Scan(&g.Service, &g.Kind, &g.Connections, &g.Bytes); err != nil {
			return err
		}
		g.Model = g.Kind.String()
		switch g.Kind {
		case Messages:
			g.SizeBytes = q.sizes(g.Service).Mean()
			rule, _ := q.Rules.of(g.Service)
			g.Burst = q.Rules.burst(g.Service)
			g.Closed = rule.Closed
			_, known := DefaultSize(g.Service)
			g.Assumed = !known && q.Rules.Assumes(g.Service)
		case Paced:
			g.SizeBytes = float64(pieceBytes)
		}
		if g.SizeBytes > 0 {
			total += float64(g.Bytes) / g.SizeBytes
		}
		sum += g.Bytes
		all = append(all, g)
		return nil
	})
	if q.err == nil && total > maxFlows {
		q.err = fmt.Errorf("connections with %s become %.0f flows, most of them of service %q, and 2^32 are "+
			"possible: take a part of the time (--from, --to), or larger messages (--traffic)",
			sizeText(float64(sum)), total, all[0].Service)
	}
	return all
}
