package main

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"parsimon/queries/duckdb"
)

// The days measurement generates flow logs with known truth, ingests them, and compares what links are
// offered with what the generator wrote down:
//
//	newDay ─┬─ bytes by link and minute ──────────────────────────────────────┐
//	        └─ log ─ ingest ─┬─ workload_flows at their starts: before ───────┤
//	                         ├─ workload_intervals: after ingest ─────────────┼─ agreement
//	                         └─ stage generate ─ flows: after the division ───┘

const daysText = `In every interval of a flow log, each link must be offered the bytes that the log
has there. This page tests that law on five generated days of 16 hosts in four racks. Their rates are
those of production: databases of 5 to 40 Mbps, brokers with bursts of up to 1 Gbps, tunnels of 3 to
6 Gbps, backups of 8 Gbps, short web flows, and databases of a rack whose traffic moves to other
exporters shortly after noon. Hosts have 25 Gbps. Only the numbers of connections and messages are
scaled down: there are 6 to 20,000 connections a day, and messages have 16 MB (brokers: 64 MB, tunnels:
1 GB) instead of KB. The generator records the bytes of each link in each minute while it draws them.
The network has one path between two hosts, so the truth does not depend on the code that is tested.

Both directions of a connection carry data. In VPC logs, both ends record each minute. In IPFIX and
NetFlow, the leaves of both ends do, and NetFlow samples one packet in 1,000 at each of them.

A cell has the percentage of (link, minute) pairs whose bytes are within 1% of the truth. For NetFlow,
it has the percentages within two and within five standard deviations of the sampling. With many
samples and no other error, the first is 95.4%. On a link with only short web flows, a single sample
is many standard deviations. The percentage of the bytes that are in the wrong minute is in
parentheses.

- Before: all bytes of a connection are sent at its start, as in versions without view
  workload_intervals.
- After ingest: bytes are sent in the intervals of the view.
- After the division: the flows of table flows send their bytes at their starts.

The last two columns have the largest difference after ingest and the difference of all bytes.`

const daysFindings = `
If traffic moves to other exporters, as on the last day, each minute has the bytes of those that saw it.`

// A dayResult is what one log of a day gave.
type dayResult struct {
	Records  int64        `json:"records"`
	Flows    int64        `json:"flows"` // after the division
	Ingested dayAgreement `json:"ingested"`
	Offered  dayAgreement `json:"offered"`
	AtStart  dayAgreement `json:"at_start"`
	Link     dayLoad      `json:"link"`
}

// A dayAgreement compares the bytes of links in minutes with the truth.
type dayAgreement struct {
	Cells   int     `json:"cells"`  // minutes of links in which either has bytes
	Close   int     `json:"close"`  // of those within 1%
	Worst   float64 `json:"worst"`  // largest relative difference
	Total   float64 `json:"total"`  // of all bytes
	Within2 int     `json:"within"` // cells within two standard deviations of the sampling
	Within5 int     `json:"within_5"`
	Sigmas  float64 `json:"sigmas"` // largest difference in standard deviations
	// Misplaced is the share of the bytes that are in another minute or on another link than in the truth.
	Misplaced float64 `json:"misplaced"`
}

// A dayLoad has the bytes of the link whose load before differs most from the truth, by minute.
type dayLoad struct {
	Truth   []float64 `json:"truth"`
	AtStart []float64 `json:"at_start"`
	Offered []float64 `json:"offered"`
}

// measureDays prints how well links are offered the bytes of generated days.
func measureDays(ctx context.Context, b *bench) {
	folder := b.recordsOf("days")
	_, method := b.version(ctx)
	minutes := dayMinutes
	if b.short {
		minutes = 60
	}
	b.printf("%s", daysText)
	b.header("day", "log", "records", "flows", "before", "after ingest", "after the division", "largest",
		"all bytes")
	for _, kind := range b.names([]string{"mixed"}, dayKinds) {
		for i := range dayFormats {
			f := &dayFormats[i]
			file := filepath.Join(folder, fmt.Sprintf("%s-%s-%d.json", kind, f.name, minutes))
			r, ok := remember(b, file, method, func() dayResult { return b.measureDay(ctx, kind, f, minutes) })
			if !ok {
				return
			}
			b.row(kind, f.title, r.Records, r.Flows, r.AtStart.shown(f), r.Ingested.shown(f), r.Offered.shown(f),
				r.Ingested.largest(f), fmt.Sprintf("%+.2f%%", 100*r.Offered.Total))
			if b.write && kind == "mixed" && f.name == "vpc" {
				b.writePicture(ctx, filepath.Join("datasets", "results", "days.svg"), dayChart(&r.Link))
			}
		}
	}
	b.printf("%s", daysFindings)
	if len(b.args) > 0 {
		return
	}
	measured := b.modelTable(ctx, folder, method) && b.costTable(ctx, folder, method)
	if !measured {
		b.printf("\nNot all is measured yet. `make days ARGS=--write` continues.")
	}
}

// measureDay generates a day, ingests its log and compares.
func (b *bench) measureDay(ctx context.Context, kind string, f *dayFormat, minutes int) (r dayResult) {
	lake := b.lake()
	lines, truth := b.ingestDay(ctx, lake, kind, f, minutes)
	b.parsimon(ctx, "stage", "generate", "--workload", "day", "--lake", lake, "--traffic", "db=messages:16MB",
		"--traffic", "kafka=messages:64MB", "--traffic", "tunnel=messages:1GB")
	atStart := b.linkMinutes(ctx, lake, minutes, workloadAtStart)
	ingested := b.linkMinutes(ctx, lake, minutes, workloadOverTime)
	offered := b.linkMinutes(ctx, lake, minutes, generatedFlows)
	if b.err != nil {
		return r
	}
	r = dayResult{
		Records: lines, Flows: offered.flows, AtStart: truth.compare(atStart), Ingested: truth.compare(ingested),
		Offered: truth.compare(offered),
	}
	r.Link = truth.worstLink(atStart, offered)
	return r
}

// ingestDay generates a day and ingests its log. It returns the number of records, and the truth.
func (b *bench) ingestDay(
	ctx context.Context, lake, kind string, f *dayFormat, minutes int,
) (lines int64, truth *dayTruth) {
	records, truth := newDay(kind, minutes)
	log := filepath.Join(b.tmp, "day.log")
	lines, err := f.writeLog(log, kind, minutes, records)
	b.fail(err)
	in := b.writeDayInputs()
	args := []string{"ingest", log, "--format", f.name, "--hosts", in.hosts, "--labels", in.labels, "--topology",
		in.cables, "--workload", "day", "--lake", lake}
	if f.sampled {
		args = append(args, "--sampling-rate", strconv.Itoa(samplingRate))
	}
	b.parsimon(ctx, args...)
	b.fail(os.Remove(log))
	return lines, truth
}

// Queries of flows: columns src, dst, from_ns, to_ns and bytes.
const (
	workloadAtStart = "SELECT src, dst, start_ns AS from_ns, start_ns + 1 AS to_ns, size_bytes AS bytes " +
		"FROM workload_flows"
	workloadOverTime = "SELECT f.src, f.dst, coalesce(i.start_ns, f.start_ns) AS from_ns, " +
		"coalesce(i.end_ns, f.start_ns + 1) AS to_ns, coalesce(i.bytes, f.size_bytes) AS bytes " +
		"FROM workload_flows AS f LEFT JOIN workload_intervals AS i USING (flow_id)"
	generatedFlows = "SELECT src, dst, start_ns AS from_ns, start_ns + 1 AS to_ns, size_bytes AS bytes " +
		"FROM flows"
)

// linkMinutes returns the bytes of each link in each minute. Bytes are spread evenly over their time. The
// path between two hosts is the generator's (dayPath). The files of the lake are read without the program,
// because its views have no flows of a scenario that is not estimated.
func (b *bench) linkMinutes(ctx context.Context, lake string, minutes int, offered string) *dayTruth {
	found := newDayTruth(minutes)
	if b.err != nil {
		return found
	}
	db, err := duckdb.Open(ctx, duckdb.Options{Threads: 1})
	if err != nil {
		b.fail(err)
		return found
	}
	defer func() { b.fail(db.Close()) }()
	for _, table := range []string{"workload_flows", "workload_intervals", "flows", "nodes"} {
		files := duckdb.Quote(filepath.Join(lake, table, "*", "*.parquet"))
		_, err := db.ExecContext(ctx, fmt.Sprintf("CREATE VIEW %s AS FROM read_parquet(%s)", table, files))
		b.fail(err)
	}
	text := fmt.Sprintf(`
		WITH offered AS (%s), pieces AS (
			SELECT src, dst, from_ns, to_ns, bytes,
				unnest(generate_series(from_ns // 60000000000, (to_ns - 1) // 60000000000)) AS minute
			FROM offered
		), host AS (SELECT node_id, CAST(substr(name, 2) AS INTEGER) AS h FROM nodes WHERE name LIKE 'h%%')
		SELECT
			a.h AS src, z.h AS dst, minute - %d AS minute, count(*) AS flows,
			sum(bytes::DOUBLE * (least(to_ns, 60000000000 * (minute + 1)) - greatest(from_ns, 60000000000 * minute)) /
				(to_ns - from_ns)) AS bytes
		FROM pieces JOIN host AS a ON a.node_id = src JOIN host AS z ON z.node_id = dst
		GROUP BY ALL`, offered, dayBegin/60)
	b.fail(duckdb.Each(ctx, db, text, func(rows *sql.Rows) error {
		var src, dst, minute int
		var bytes float64
		var flows int64
		if err := rows.Scan(&src, &dst, &minute, &flows, &bytes); err != nil {
			return err
		}
		if minute < 0 || minute >= minutes {
			return fmt.Errorf("%v bytes from h%d to h%d are in minute %d of the day", bytes, src, dst, minute)
		}
		found.flows += flows
		for _, link := range dayPath(src, dst) {
			found.bytes[link][minute] += bytes
		}
		return nil
	}))
	return found
}

// compare compares bytes with the truth.
func (t *dayTruth) compare(found *dayTruth) (a dayAgreement) {
	var sum, all, misplaced float64
	for link := range dayLinks {
		for minute, want := range t.bytes[link] {
			got := found.bytes[link][minute]
			if want == 0 && got == 0 {
				continue
			}
			off := math.Abs(got - want)
			a.Cells++
			sum += got
			all += want
			misplaced += off / 2
			relative := off / max(want, 1)
			a.Worst = max(a.Worst, relative)
			if relative <= 0.01 {
				a.Close++
			}
			// The program rounds the bytes of each interval.
			sigmas := off / max(1, math.Sqrt(t.variance[link][minute]))
			a.Sigmas = max(a.Sigmas, sigmas)
			if sigmas <= 2 {
				a.Within2++
			}
			if sigmas <= 5 {
				a.Within5++
			}
		}
	}
	a.Total = sum/all - 1
	a.Misplaced = misplaced / all
	return a
}

// worstLink returns the bytes of the link that is farthest from the truth if flows are sent at their starts.
func (t *dayTruth) worstLink(atStart, offered *dayTruth) (l dayLoad) {
	most := -1.0
	for link := range 2 * dayHosts {
		off := 0.0
		for minute, want := range t.bytes[link] {
			off += math.Abs(atStart.bytes[link][minute] - want)
		}
		if off > most {
			most = off
			l = dayLoad{Truth: t.bytes[link], AtStart: atStart.bytes[link], Offered: offered.bytes[link]}
		}
	}
	return l
}

// shown returns the share of the cells that agree, and that of the misplaced bytes.
func (a *dayAgreement) shown(f *dayFormat) string {
	agree := fine(a.Close, a.Cells)
	if f.sampled {
		agree = fine(a.Within2, a.Cells) + " / " + fine(a.Within5, a.Cells)
	}
	return fmt.Sprintf("%s (%.1f%%)", agree, 100*a.Misplaced)
}

// largest returns the largest difference of a cell.
func (a *dayAgreement) largest(f *dayFormat) string {
	if f.sampled {
		return fmt.Sprintf("%.1f σ", a.Sigmas)
	}
	return fmt.Sprintf("%.0f%%", 100*a.Worst)
}

// fine prints a share with up to two decimals.
func fine(n, of int) string { return fmt.Sprintf("%.4g%%", 100*float64(n)/float64(of)) }

// dayChart draws the load of a link over a day. Bytes that are ready before the link can send them wait.
func dayChart(l *dayLoad) chart {
	const step = 5 // minutes of a point
	const linkBytes = 25e9 / 8 * 60
	names := []string{"in the log", "sent at the start, as before", "sent as in the log"}
	var data []point
	for i, link := range [][]float64{l.Truth, l.AtStart, l.Offered} {
		waiting := 0.0
		sent := 0.0
		for minute, bytes := range link {
			waiting += bytes
			now := min(waiting, linkBytes)
			waiting -= now
			sent += now
			if (minute+1)%step == 0 {
				hour := float64(minute+1-step) / 60
				data = append(data, point{"line": names[i], "hour": hour, "load": sent / (step * linkBytes)})
				sent = 0
			}
		}
	}
	return chart{
		"width": 640, "height": 220,
		"data":  map[string]any{"values": data},
		"title": "Load of a link of 25 Gbps with a tunnel, databases, brokers and backups",
		"mark":  map[string]any{"type": "line", "strokeWidth": 2},
		"encoding": map[string]any{
			"x": field("hour", "quantitative", "hour of the day", "scale", map[string]any{"domain": []int{0, 24}}),
			"y": field("load", "quantitative", "load", percentAxis...),
			"color": field("line", "nominal", "", "sort", nil, "scale", map[string]any{
				"domain": names,
				"range":  []string{"#bbbbbb", "#d95f02", "#1b9e77"},
			}),
			"strokeDash": field("line", "nominal", "", "sort", nil, "scale", map[string]any{
				"domain": names,
				"range":  [][]int{{1, 0}, {1, 0}, {4, 4}},
			}),
		},
	}
}
