package traffic

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/datasets"
	"parsimon/simkernel/kerneltest"
	"parsimon/stages/estimators"
	"parsimon/stages/method"
	"parsimon/stages/methodtest"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

var update = flag.Bool("update", false, "rewrite datasets/results/traffic.md")

// An application sends on eight connections to one host. Its flow log has one record of a minute for each.
type application struct {
	name  string
	sizes *workload.SizeCDF
	burst int  // requests that begin at the same time
	paced bool // packets at equal distances instead of requests

}

// The part of the minute that is simulated.
const (
	partFromNS = 30 * secondNS
	partToNS   = partFromNS + secondNS
)

const connectionBps = 300e6 // of links of 10 Gbps

// record generates the traffic of a minute of one connection. It returns the bytes of the minute, as the log
// has them, and the flows that start within the part.
func (a *application) record(seed uint64, connection int64, src, dst int32) (
	bytes int64, rows []workload.Row,
) {
	draw := rng.New(seed, rng.Service, uint64(connection))
	atNS := 0.0
	for {
		gap := a.sizes.Mean() * float64(a.burst) * 8e9 / connectionBps
		if a.paced {
			atNS += gap
		} else {
			atNS += workload.Exponential{Mean: gap}.Draw(&draw)
		}
		if atNS >= float64(60*secondNS) {
			return bytes, rows
		}
		for range a.burst {
			size := a.sizes.Size(draw.Float64())
			bytes += size
			if int64(atNS) >= partFromNS && int64(atNS) < partToNS {
				rows = append(rows, workload.Row{
					Connection: connection, Src: src, Dst: dst, SizeBytes: size, StartNS: int64(atNS),
					Labels: workload.Labels{Service: "app"}, Background: a.paced,
				})
			}
		}
	}
}

// webRows are flows of 25 KB from one of the senders to the same host, with 10% load.
func webRows(src, dst int32) (rows []workload.Row) {
	draw := rng.New(98, rng.Service)
	for atNS := float64(partFromNS); ; {
		atNS += workload.Exponential{Mean: 200e3}.Draw(&draw)
		if atNS >= float64(partToNS) {
			return rows
		}
		id := int64(len(rows))
		rows = append(rows, workload.Row{
			ID: id, Connection: id, Src: src, Dst: dst, SizeBytes: 25_000, StartNS: int64(atNS),
			Labels: workload.Labels{Service: "web"},
		})
	}
}

// p99 simulates the whole network and returns the p99 of slowdown of each service.
func p99(t *testing.T, m *method.Model, rows []workload.Row) map[string]float64 {
	t.Helper()
	found, err := method.Run(t.Context(), m, method.Estimate{Estimator: estimators.Exact}, rows)
	if err != nil {
		t.Fatal(err)
	}
	slowdowns, err := found.Slowdowns()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string][]float64{}
	for _, r := range slowdowns {
		of[r.Service] = append(of[r.Service], r.Slowdown)
	}
	result := map[string]float64{}
	for service, all := range of {
		slices.Sort(all)
		result[strings.Clone(service)] = all[len(all)*99/100]
	}
	return result
}

// numbered sorts flows by start and numbers them.
func numbered(rows []workload.Row) []workload.Row {
	slices.SortStableFunc(rows, func(a, b workload.Row) int { return int(a.StartNS - b.StartNS) })
	for i := range rows {
		rows[i].ID = int64(i)
	}
	return rows
}

func fixedApplication(name string, bytes int64, burst int) application {
	return application{name: name, sizes: fixedSize(bytes), burst: burst}
}

func applications(t *testing.T) []application {
	t.Helper()
	text, err := datasets.Read(datasets.Sizes, "webserver")
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := workload.ParseSizeCDF("webserver", text)
	if err != nil {
		t.Fatal(err)
	}
	stream := fixedApplication("a stream of packets at a constant rate", 1000, 1)
	stream.paced = true
	all := []application{
		fixedApplication("requests of 4 KB", 4000, 1),
		fixedApplication("requests of 16 KB", 16_000, 1),
		fixedApplication("requests of 64 KB", 64_000, 1),
		{name: "requests with the sizes of Web servers", sizes: sizes, burst: 1},
		fixedApplication("requests of 16 KB, 8 at a time", 16_000, 8),
		stream,
	}
	return all
}

// The table shows the error of the p99 of an application's requests for known, unknown and wrong sizes. If
// the sizes and the bursts are known, the models must be accurate. Two or three applications run each day,
// and all of them with PARSIMON_LONG and -update.
func TestAccuracyOfModels(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test runs it")
	}
	n := methodtest.Clos(t)
	m := methodtest.DCTCP(t, n)
	var table strings.Builder
	all := applications(t)
	today := kerneltest.Seeds(uint64(len(all)), 3)
	for i, a := range all {
		if !*update && !slices.Contains(today, uint64(i)) {
			continue
		}
		errors := accuracyOf(t, m, n, &a)
		fmt.Fprintf(&table, "| %s | %s |\n", a.name, strings.Join(errors.cells, " | "))
		fixed := len(a.sizes.Points()) == 1 // otherwise chance is as large as the error
		if fixed && math.Abs(errors.known) > 0.1 {
			t.Errorf("%s: p99 is %+.1f%% from the truth with known sizes", a.name, 100*errors.known)
		}
	}
	t.Logf("\n%s", &table)
	if *update {
		writeAccuracy(t, table.String())
	}
}

// modelErrors are the relative errors of p99, in cells of a table, and the one with known sizes.
type modelErrors struct {
	known float64
	cells []string
}

func accuracyOf(t *testing.T, m *method.Model, n *topology.Network, a *application) (e modelErrors) {
	t.Helper()
	hosts := n.Hosts()
	dst := hosts[0]
	web := webRows(hosts[len(hosts)-1], dst)
	truth := slices.Clone(web)
	again := slices.Clone(web)
	var parts []part
	for k := range int64(8) {
		src := hosts[len(hosts)-1-int(k)]
		p := part{EndNS: 60 * secondNS, Connection: 500 + k, Src: src, Dst: dst}
		p.Service = "app"
		var rows []workload.Row
		_, rows = a.record(100, p.Connection, src, dst)
		again = append(again, rows...)
		p.Bytes, rows = a.record(99, p.Connection, src, dst)
		truth = append(truth, rows...)
		parts = append(parts, p)
	}
	want := p99(t, m, numbered(truth))
	service := "app"
	if a.paced {
		service = "web" // whose flows meet the stream
	}
	other := p99(t, m, numbered(again))[service]/want[service] - 1
	e.cells = []string{fmt.Sprintf("%.2f", want[service]), fmt.Sprintf("%+.1f%%", 100*other)}
	mean := a.sizes.Mean()
	known := Rule{Sizes: a.sizes, Burst: int64(a.burst)}
	if a.paced {
		known = Rule{Kind: Paced}
		mean = float64(otherSizeBytes)
	}
	rules := []Rule{known, {Sizes: fixedSize(int64(mean / 3))}, {Sizes: fixedSize(int64(3 * mean))}, {}}
	for i, r := range rules {
		in := Input{Rules: Rules{OtherServices: r}, FromNS: partFromNS, ToNS: partToNS}
		for k := range parts {
			parts[k].Kind = int16(r.Kind)
		}
		got := p99(t, m, written(t, in, web, parts))
		x := got[service]/want[service] - 1
		e.cells = append(e.cells, fmt.Sprintf("%+.1f%%", 100*x))
		if i == 0 {
			e.known = x
		}
	}
	return e
}

// writeAccuracy writes the page with the table.
func writeAccuracy(t *testing.T, table string) {
	t.Helper()
	text := "# Long connections of flow logs\n\n" +
		"An application sends on eight connections of 0.3 Gbps to one host of 10 Gbps. Another service,\n" +
		"web, sends flows of 25 KB with 10% load to it. The log has one record of a minute for each\n" +
		"connection. A second is simulated with *exact*: the application's own trace, and the flows that\n" +
		"`stages/traffic` makes of the log. The table has p99 of slowdown of the requests in the trace\n" +
		"(for the stream, of the web flows), and how far the estimate is from it: with the sizes of the\n" +
		"application, with a third of their mean, with three times their mean, and with the default of 16\n" +
		"KB. Only *known* has the bursts of the application, too.\n" +
		"Column *again* is the application itself with another seed, which shows what is chance. For\n" +
		"the stream, *known* is `paced`, and the others are messages of 5.3, 48 and 16 KB. `go test\n" +
		"./stages/traffic -run TestAccuracyOfModels -update` writes the page.\n\n" +
		"| application | p99 | again | known | a third | three times | default |\n" +
		"|---|---|---|---|---|---|---|\n" + table
	path := filepath.Join("..", "..", "datasets", "results", "traffic.md")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
