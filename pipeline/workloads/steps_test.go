package workloads

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/daily"
	"parsimon/stages/ingest"
)

// stepRows is the number of flows in each of the four files of a stepped trace. Together they fill 2.4 data
// files of table flows.
const stepRows = 20_000

// A stepped trace is ingested file by file, and compared with the same trace ingested at once.
type stepped struct {
	format string
	file   func(random *rand.Rand, part int) string
}

var steppedTraces = map[string]stepped{
	"flows in time order": {"csv", func(random *rand.Rand, part int) string {
		return csvFlows(random, part*1e9, 1e9, "")
	}},
	"files that overlap": {"csv", func(random *rand.Rand, part int) string {
		return csvFlows(random, part*1e9, 1.2e9, "")
	}},
	"a file from the middle comes late": {"csv", func(random *rand.Rand, part int) string {
		return csvFlows(random, []int{0, 2, 3, 1}[part]*1e9, 1e9, "")
	}},
	"ids that files repeat": {"csv", func(random *rand.Rand, part int) string {
		return csvFlows(random, part*1e9, 1e9, fmt.Sprint(part*(stepRows-100)+1000))
	}},
	"flow logs": {"vpc", func(random *rand.Rand, part int) string {
		return vpcFlows(random, []int{part})
	}},
	"flow logs with a late record": {"vpc", func(random *rand.Rand, part int) string {
		if part == 3 {
			return vpcFlows(random, []int{3, 1})
		}
		return vpcFlows(random, []int{part})
	}},
}

func csvFlows(random *rand.Rand, fromNS int, spanNS float64, firstID string) string {
	var b strings.Builder
	b.WriteString("src,dst,size_bytes,start_ns,service,vnet")
	id := 0
	if firstID != "" {
		b.WriteString(",flow_id")
		_, _ = fmt.Sscan(firstID, &id) // it is a number
	}
	b.WriteByte('\n')
	for i := range stepRows {
		src := random.IntN(200)
		fmt.Fprintf(&b, "%d,%d,%d,%d,s%d,v%d", src, src+1+random.IntN(50), 1+random.IntN(1e5),
			fromNS+int(spanNS*random.Float64()), random.IntN(3), random.IntN(2))
		if firstID != "" {
			fmt.Fprintf(&b, ",%d", id+i)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// vpcFlows writes ten minutes of flow logs for each part. The connections last up to two minutes, may begin
// in the previous part, and are logged at both ends.
func vpcFlows(random *rand.Rand, parts []int) string {
	var b strings.Builder
	b.WriteString(vpcHeader)
	for _, part := range parts {
		for range stepRows / len(parts) {
			start := 1769817600 + part*600 + random.IntN(640) - 40
			from := random.IntN(3)
			port := 40000 + random.IntN(20000)
			for eni := range 2 {
				fmt.Fprintf(&b, "2 1 eni-%d 10.0.0.%d 10.0.0.%d %d 443 6 10 %d %d %d ACCEPT OK\n",
					eni, 1+from, 1+(from+1)%3, port, 1+random.IntN(1e5), start, start+random.IntN(60))
			}
		}
	}
	return b.String()
}

// The content of a workload, including the bytes of its data files, does not depend on the steps in which it
// was ingested. Two of the traces run each day, in short tests one.
func TestSteps(t *testing.T) {
	parts := 3
	if testing.Short() {
		parts = len(steppedTraces)
	}
	for _, name := range daily.Today(parts, slices.Sorted(maps.Keys(steppedTraces))...) {
		s := steppedTraces[name]
		t.Run(name, func(t *testing.T) {
			d := newTrace(t, 0)
			random := rand.New(rand.NewPCG(1, 2))
			for part := range 4 {
				d.write(t, fmt.Sprintf("day%d.log", part), s.file(random, part))
			}
			whole, want := s.add(t, d, "whole", 0, 1, 2, 3)
			var steps []lake.DataFile
			var got *Report
			for part := range 4 {
				steps, got = s.add(t, d, "steps", part)
			}
			for _, table := range []schema.Table{schema.Flows, schema.LinkLoads, schema.Nodes, schema.Links,
				schema.Workloads} {
				a, b := digests(whole, table), digests(steps, table)
				if !slices.Equal(a, b) {
					t.Errorf("%s %v, in one step %v", table.Name, b, a)
				}
			}
			compareReports(t, got, want)
		})
	}
}

// add ingests files into a lake and returns the files of its manifest.
func (s stepped) add(t *testing.T, d traceDir, lakeName string, parts ...int) ([]lake.DataFile, *Report) {
	t.Helper()
	tr := d.trace(parts...)
	mapping, err := ingest.FormatMapping(s.format)
	tr.Mappings = []*ingest.Mapping{mapping}
	if err != nil {
		t.Fatal(err)
	}
	tr.MaxRejects = 0.5
	if s.format == "csv" {
		tr.Hosts = ""
	}
	return d.ingested(t, tr, lakeName)
}

// ingested ingests a trace as workload days. It returns the files of its manifest, and the report.
func (d traceDir) ingested(t *testing.T, tr Trace, lakeName string) ([]lake.DataFile, *Report) {
	t.Helper()
	r, err := Ingest(t.Context(), tr, Settings{Lake: d.path(lakeName)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := lake.Open(d.path(lakeName), false)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := l.ReadManifest(lake.Place{Workload: "days"})
	if err != nil {
		t.Fatal(err)
	}
	return m.Files, r
}

func digests(files []lake.DataFile, table schema.Table) (all []string) {
	for _, f := range lake.FilesOf(files, table) {
		all = append(all, f.Digest)
	}
	return all
}

func compareReports(t *testing.T, got, want *Report) {
	t.Helper()
	text := func(r *Report) string {
		return fmt.Sprint(r.Rows, r.Flows, r.Merged, r.Rejects, r.Reasons, r.SyntheticStarts, r.Bytes,
			r.FirstStartNS, r.LastStartNS, r.Labels, r.Links, r.UnreachableFlows, r.PacketHops)
	}
	if text(got) != text(want) {
		t.Errorf("report %s\nin one step %s", text(got), text(want))
	}
}
