package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
)

// The second part of measurement days: what the models of long connections are worth. An application's own
// trace is simulated, its log is ingested, and p99 of the estimate is compared with that of the trace:
//
//	application ─┬─ requests of 20 s ─ run --flows, exact ─ p99 ────────────────────┐
//	             └─ bytes by minute ─ log ─ ingest ─ run --workload, exact ─ p99 ───┴─ error

const modelsText = `Eight connections of one application send 30 Mbps each to one host of 1 Gbps.
Service web sends flows of 25 KB to it, 10% of its capacity. The application's own trace of 20 s
is simulated with exact. Its VPC log has one record a minute for each connection. The log is ingested,
and the same 20 s are run with exact. The table has the p99 of the slowdown of the requests in the
trace, and the error of four estimates. In column known, --traffic states the sizes and bursts. In the
next two columns, it states a third of the mean size and three times the mean size. The last estimate
is without --traffic. Column again is the trace with another seed of the application.

The stream and the transfer have no requests, so their p99 is that of the web flows. In column known,
the stream is paced and the transfer is bulk. In the next two columns, they are messages of 5.3 and 48
KB. The transfer is one connection that the network limits. Without --traffic, the program treats it as
bulk, and the other applications as messages of 16 KB. Messages do not slow down if a link is full. If
such a transfer is simulated as messages, the link is overloaded, and slowdowns grow without bound.`

const (
	modelBps     = 30e6
	modelMinutes = 5
	modelFromS   = 120 // the part that is simulated
	modelToS     = 140
)

// A modelApplication is an application that sends on long connections.
type modelApplication struct {
	Name  string
	Known string  // the rule that is right
	size  float64 // of its requests; 0: p99 is that of the web flows
	burst int
}

// aTransfer is the application that the network limits.
const aTransfer = "a transfer"

var modelApplications = []modelApplication{
	{Name: "requests of 4 KB", Known: "messages:4KB", size: 4000, burst: 1},
	{Name: "requests of 16 KB", Known: "messages:16KB", size: 16_000, burst: 1},
	{Name: "requests of 64 KB", Known: "messages:64KB", size: 64_000, burst: 1},
	{Name: "requests of 16 KB, 8 at a time", Known: "messages:16KB:burst=8", size: 16_000, burst: 8},
	{Name: "a stream of packets", Known: "paced"},
	{Name: aTransfer, Known: "bulk"},
}

// service is the service whose p99 is compared.
func (a *modelApplication) service() string {
	if a.size > 0 {
		return "app"
	}
	return "web"
}

// A modelFlow is a flow of the application or of web. Hosts are c0 to c7, which send, and s0.
type modelFlow struct {
	client  int
	service string
	bytes   int64
	atNS    int64 // since the beginning of the log
}

// requests draws the requests of one connection.
func (a *modelApplication) requests(seed uint64, client int) (flows []modelFlow) {
	draw := rand.New(rand.NewPCG(seed, uint64(client)))
	bytes := cmp.Or(a.size, 1000) // packets of a stream
	at := draw.Float64() * bytes * 8e9 / modelBps
	for at < modelMinutes*60e9 {
		for range max(1, a.burst) {
			flows = append(flows, modelFlow{client, "app", int64(bytes), int64(at)})
		}
		gap := bytes * float64(max(1, a.burst)) * 8e9 / modelBps
		if a.size > 0 {
			gap *= draw.ExpFloat64()
		}
		at += gap
	}
	return flows
}

// webFlows are short flows from all clients.
func webFlows() (flows []modelFlow) {
	draw := rand.New(rand.NewPCG(3, 0))
	for at := 0.0; at < modelMinutes*60e9; at += 25_000 * 8e9 / 100e6 * draw.ExpFloat64() {
		flows = append(flows, modelFlow{draw.IntN(8), "web", 25_000, int64(at)})
	}
	return flows
}

// A modelResult has p99 of the trace, and of the estimates.
type modelResult struct {
	Truth     float64            `json:"truth"`
	Again     float64            `json:"again"`
	Estimates map[string]float64 `json:"estimates"` // by rule; "" is without one
}

// rules returns the rules that are tried, in the order of the columns.
func (a *modelApplication) rules() []string {
	bytes := cmp.Or(a.size, 16_000)
	size := func(factor float64) string { return fmt.Sprintf("messages:%d", int64(bytes*factor)) }
	return []string{a.Known, size(1.0 / 3), size(3), ""}
}

// modelTable prints the errors of the models. It reports whether all of them are measured.
func (b *bench) modelTable(ctx context.Context, folder, method string) (complete bool) {
	b.printf("\n## Models of what connections send\n\n%s", modelsText)
	b.header("application", "p99", "again", "known", "a third", "three times", "without --traffic")
	for i := range modelApplications {
		a := &modelApplications[i]
		if b.short && a.Name != "requests of 16 KB" {
			continue
		}
		file := filepath.Join(folder, "model-"+strings.ReplaceAll(a.Name, " ", "-")+".json")
		r, ok := remember(b, file, method, func() modelResult { return b.measureModel(ctx, a) })
		if !ok {
			return false
		}
		cells := []any{a.Name, fmt.Sprintf("%.2f", r.Truth), percent(r.Again/r.Truth - 1)}
		for _, rule := range a.rules() {
			cells = append(cells, percent(r.Estimates[rule]/r.Truth-1))
		}
		b.row(cells...)
	}
	return true
}

// measureModel simulates the trace of an application, and estimates it from its log.
func (b *bench) measureModel(ctx context.Context, a *modelApplication) (r modelResult) {
	lake := b.lake()
	cables := b.modelCables()
	traced := func(seed uint64) ([]modelFlow, float64) {
		flows := webFlows()
		if a.Name == aTransfer {
			// As many bytes as fit into 19 s without web flows; with them, the transfer takes longer.
			flows = append(flows, modelFlow{0, "app", 2_375_000_000, modelFromS * 1e9})
		} else {
			for client := range 8 {
				flows = append(flows, a.requests(seed, client)...)
			}
		}
		e := b.run(ctx, lake, "--topology", cables, "--flows", b.traceFile(flows), "--estimator", "exact")
		return flows, p99Of(e, a.service())
	}
	_, r.Again = traced(2)
	flows, truth := traced(1)
	r.Truth = truth
	if a.Name == aTransfer {
		took := query[struct{ FCT float64 }](ctx, b, lake, "SELECT max(fct_ns) AS fct FROM slowdowns "+
			"WHERE service = 'app'")
		if b.err != nil {
			return r
		}
		flows = slices.DeleteFunc(flows, func(f modelFlow) bool { return f.service == "app" })
		bytes := int64(2_375_000_000 * 60e9 / took[0].FCT)
		for minute := range int64(modelMinutes) {
			flows = append(flows, modelFlow{0, "app", bytes, minute * 60e9})
		}
	}
	b.ingestModel(ctx, lake, cables, flows)
	r.Estimates = map[string]float64{}
	for _, rule := range a.rules() {
		r.Estimates[rule] = p99Of(b.runModel(ctx, lake, rule, "exact"), a.service())
	}
	return r
}

// runModel runs the part of the log.
func (b *bench) runModel(ctx context.Context, lake, rule, estimator string) estimate {
	args := []string{"--workload", "app", "--from", "00:02:00", "--to", "00:02:20", "--estimator", estimator}
	if rule != "" {
		args = append(args, "--traffic", "app="+rule)
	}
	return b.run(ctx, lake, args...)
}

// p99Of returns p99 of the slowdown of a service.
func p99Of(e estimate, service string) float64 {
	for _, s := range e.Services {
		if s.Service == service {
			return s.P99
		}
	}
	return 0
}

// modelCables writes eight clients and a server of 1 Gbps, in two racks.
func (b *bench) modelCables() string {
	text := "device_a,port_a,device_b,port_b,speed\n"
	for c := range 8 {
		text += fmt.Sprintf("c%d,eth0,leaf0,E%[1]d,1G\n", c)
	}
	return b.file("cables.csv", text+"s0,eth0,leaf1,E1,1G\nleaf0,E99,spine0,E0,10G\nleaf1,E99,spine0,E1,10G\n")
}

// traceFile writes the flows of the part as a flow list.
func (b *bench) traceFile(flows []modelFlow) string {
	var text strings.Builder
	text.WriteString("src,dst,size_bytes,start_ns,service\n")
	for _, f := range flows {
		if f.atNS >= modelFromS*1e9 && f.atNS < modelToS*1e9 {
			fmt.Fprintf(&text, "c%d,s0,%d,%d,%s\n", f.client, f.bytes, f.atNS, f.service)
		}
	}
	return b.file("trace.csv", text.String())
}

// ingestModel writes the log of flows, and ingests it. A connection of the application has a record for each
// minute, and a web flow one.
func (b *bench) ingestModel(ctx context.Context, lake, cables string, flows []modelFlow) {
	var text, hosts strings.Builder
	text.WriteString(dayFormats[0].header + "\n")
	line := func(client int, ports string, bytes, fromS, toS int64) {
		fmt.Fprintf(&text, "2 1 e %s %s %s 6 %d %d %d %d ACCEPT OK\n", dayAddress(client), dayAddress(100), ports,
			1+bytes/1000, bytes, dayBegin+fromS, dayBegin+toS)
	}
	type minuteOf struct {
		client int
		minute int64
	}
	connections := map[minuteOf]int64{}
	for i, f := range flows {
		if f.service == "web" {
			line(f.client, fmt.Sprintf("%d 443", 1024+i%60_000), f.bytes, f.atNS/1e9, f.atNS/1e9)
			continue
		}
		connections[minuteOf{f.client, f.atNS / 60e9}] += f.bytes
	}
	for of, bytes := range connections {
		line(of.client, "40000 5432", bytes, 60*of.minute, 60*of.minute+59)
	}
	hosts.WriteString("address,node\n" + dayAddress(100) + ",s0\n")
	for c := range 8 {
		fmt.Fprintf(&hosts, "%s,c%d\n", dayAddress(c), c)
	}
	labels := b.file("labels.csv", "cidr,port,service,vnet\n10.0.0.0/24,5432,app,p\n10.0.0.0/24,443,web,p\n")
	log := b.file("app.log", text.String())
	b.parsimon(ctx, "ingest", log, "--format", "vpc", "--topology", cables, "--labels", labels, "--hosts",
		b.file("hosts.csv", hosts.String()), "--workload", "app", "--lake", lake)
}

// A costResult has processor times and sizes.
type costResult struct {
	Records      int64              `json:"records"`
	IngestUS     float64            `json:"ingest_us"` // processor time of a record
	FlowBytes    int64              `json:"flow_bytes"`
	ProfileBytes int64              `json:"profile_bytes"`
	Intervals    int64              `json:"intervals"`
	Runs         map[string]float64 `json:"runs"` // processor seconds, by estimator and model
	Flows        map[string]int64   `json:"flows"`
}

// costRules are the models whose runs are measured.
var costRules = []string{"bulk", "messages:64KB", "messages:16KB", "messages:4KB", "paced"}

var costEstimators = []string{"independent", "flow", "exact"}

// costTable prints what profiles and models cost. It reports whether all is measured.
func (b *bench) costTable(ctx context.Context, folder, method string) (complete bool) {
	r, ok := remember(b, filepath.Join(folder, fmt.Sprintf("cost-%v.json", b.short)), method, func() costResult {
		return b.measureCost(ctx)
	})
	if !ok {
		return false
	}
	perRecord := func(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/float64(r.Records)) }
	b.printf("\n## Cost\n\nIngest of the persistent day as VPC text, %d records: %.1f µs of processor time a "+
		"record, with the start of the program. On disk, table workload_intervals takes %s bytes a record (%d "+
		"intervals), and table workload_flows %s.", r.Records, r.IngestUS, perRecord(r.ProfileBytes),
		r.Intervals, perRecord(r.FlowBytes))
	b.printf("\nRuns of the same 20 s of eight connections of 30 Mbps and of the web flows above: processor " +
		"time in s, with the start of the program.")
	b.header(append([]string{"model", "flows"}, costEstimators...)...)
	for _, rule := range costRules {
		cells := []any{rule, r.Flows[rule]}
		for _, way := range costEstimators {
			cells = append(cells, fmt.Sprintf("%.2f", r.Runs[way+" "+rule]))
		}
		b.row(cells...)
	}
	return true
}

// measureCost measures an ingest and runs.
func (b *bench) measureCost(ctx context.Context) (r costResult) {
	minutes := dayMinutes
	if b.short {
		minutes = 60
	}
	lake := b.lake()
	r.Records, _ = b.ingestDay(ctx, lake, "persistent", &dayFormats[0], minutes)
	r.IngestUS = b.processor.Seconds() * 1e6 / float64(r.Records)
	r.FlowBytes = b.bytesOf(filepath.Join(lake, "workload_flows"))
	r.ProfileBytes = b.bytesOf(filepath.Join(lake, "workload_intervals"))
	for _, n := range query[struct{ N int64 }](ctx, b, lake, "SELECT count(*) AS n FROM workload_intervals") {
		r.Intervals = n.N
	}
	flows := webFlows()
	for client := range 8 {
		flows = append(flows, modelApplications[1].requests(1, client)...)
	}
	lake = b.lake()
	b.ingestModel(ctx, lake, b.modelCables(), flows)
	r.Runs = map[string]float64{}
	r.Flows = map[string]int64{}
	for _, rule := range costRules {
		for _, way := range costEstimators {
			e := b.runModel(ctx, lake, rule, way)
			r.Flows[rule] = e.Flows
			r.Runs[way+" "+rule] = b.processor.Seconds()
		}
	}
	return r
}

// bytesOf returns the bytes of the files of a folder.
func (b *bench) bytesOf(folder string) (bytes int64) {
	b.fail(filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	}))
	return bytes
}
