package ingest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
	"parsimon/stages/ingest/connections"
	"parsimon/stages/topology/topologytest"
)

// recordOf returns a record without what is not known.
func recordOf(row, bytes, startNS int64) connections.Row {
	return connections.Row{
		Row: row, FlowID: -1, SizeBytes: bytes, StartNS: startNS, EndNS: startNS, Packets: -1,
		RowEnds:   connections.RowEnds{Src: 0, Dst: 1, Protocol: -1, SrcPort: -1, DstPort: -1},
		RowLabels: connections.RowLabels{DSCP: -1},
	}
}

// sourceOf writes records of source number n.
func sourceOf(t *testing.T, in *Ingester, n int32, file string, rows ...connections.Row) MergeSource {
	t.Helper()
	path := filepath.Join(in.o.TmpDir, recordsName(n))
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		rows[i].Source = n
	}
	w := parquet.NewWriter(schema.Records, f)
	if err := errors.Join(recordTable.Write(w, rows), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	count := int64(len(rows))
	return MergeSource{N: n, File: file, FileStats: FileStats{Rows: count + 2, Records: count,
		RecordsFile: path}}
}

// mergerOf returns an Ingester whose records are flows, or records of a flow log.
func mergerOf(t *testing.T, isLog bool) *Ingester {
	t.Helper()
	o := Options{TmpDir: t.TempDir(), Files: Files{Open: parquet.OpenFile}, Mapping: &Mapping{Records: isLog},
		Threads: 1}
	in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	return in
}

// flowsIn lists the ids and sizes of flows.
func flowsIn(t *testing.T, sink *rowsSink) (flows []string) {
	t.Helper()
	for _, row := range sink.rows {
		var id, bytes int64
		for _, cell := range strings.Fields(row) {
			name, value, _ := strings.Cut(cell, "=")
			to := map[string]*int64{"flow_id": &id, "size_bytes": &bytes}[name]
			if to == nil {
				continue
			}
			if _, err := fmt.Sscan(value, to); err != nil {
				t.Fatal(cell, err)
			}
		}
		flows = append(flows, fmt.Sprint(id, ":", bytes))
	}
	return flows
}

// Flows of several sources are numbered by source and row. A row that an earlier source has counts once, and
// all rows of the sources are accounted for.
func TestFlowsOfSeveralSources(t *testing.T) {
	in := mergerOf(t, false)
	drawn := recordOf(3, 300, 30)
	drawn.ResolutionNS = 1
	other := recordOf(4, 250, 25)
	other.Dst = 2
	other.Service = "web"
	sources := []MergeSource{
		sourceOf(t, in, 1, "a.csv", recordOf(1, 100, 10), recordOf(2, 200, 20), drawn, recordOf(5, 100, 10)),
		sourceOf(t, in, 2, "b.csv", recordOf(1, 200, 20), recordOf(2, 400, 40), other),
	}
	var flows rowsSink
	stats, err := in.Merge(t.Context(), sources, Tables{Flows: &flows})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"0:100", "4:100", "1:200", "9:250", "2:300", "7:400"}
	got := flowsIn(t, &flows)
	if !slices.Equal(got, want) {
		t.Errorf("flows %q, want %q", got, want)
	}
	if stats.Flows != 6 || stats.Merged != 1 || stats.Repeated != 1 || stats.Rejects != 0 ||
		stats.SyntheticStarts != 1 ||
		stats.FirstStartNS != 10 || stats.LastStartNS != 40 || stats.bytes != 1350 || stats.largest != 400 {
		t.Errorf("%+v", stats)
	}
	labels := []LabelCount{{Flows: 5, Bytes: 1100}, {Service: "web", Flows: 1, Bytes: 250}}
	if !slices.Equal(stats.Labels, labels) {
		t.Errorf("labels %+v, want %+v", stats.Labels, labels)
	}
	if stats.Corrections != nil { // they share one record of four and three
		t.Errorf("corrections %+v", stats.Corrections)
	}
}

// Of flows with the same id, the first row counts. The others are rejects of the merge, with the name of
// their file.
func TestFlowsWithTheSameID(t *testing.T) {
	in := mergerOf(t, false)
	ids := func(rows []connections.Row, ids ...int64) []connections.Row {
		for i, id := range ids {
			rows[i].FlowID = id
		}
		return rows
	}
	first := ids([]connections.Row{recordOf(1, 100, 10), recordOf(2, 200, 5), recordOf(4, 300, 30)}, 7, 8, 7)
	second := ids([]connections.Row{recordOf(1, 400, 1), recordOf(2, 500, 2)}, 8, 9)
	sources := []MergeSource{sourceOf(t, in, 1, "a.csv", first...), sourceOf(t, in, 2, "b.csv", second...)}
	sources[1].AnyFlowID = true
	var flows rowsSink
	stats, err := in.Merge(t.Context(), sources, Tables{Flows: &flows})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"9:500", "8:200", "7:100"}
	got := flowsIn(t, &flows)
	if !slices.Equal(got, want) {
		t.Errorf("flows %q, want %q", got, want)
	}
	if stats.Flows != 3 || stats.Rejects != 2 || stats.Merged != 0 || len(stats.Reasons) != 1 ||
		stats.Reasons[0].Rows != 2 {
		t.Errorf("%+v", stats)
	}
	rejects := askParquet(t, `SELECT concat_ws(' ', file, "row", reason) FROM read_parquet(%s)`,
		stats.RejectsFile)
	if rejects != "a.csv 4 flow_id stands in an earlier row; b.csv 1 flow_id stands in an earlier row" {
		t.Errorf("rejects %s", rejects)
	}
}

// A flow that is too large is an error that names its row.
func TestFlowsThatAreTooLarge(t *testing.T) {
	in := mergerOf(t, false)
	source := sourceOf(t, in, 1, "a.csv", recordOf(1, 5, 1), recordOf(3, 1<<50+1, 2))
	_, err := in.Merge(t.Context(), []MergeSource{source}, Tables{Flows: &rowsSink{}})
	if err == nil || !strings.HasPrefix(err.Error(),
		"flow file a.csv: row 3 has 1125899906842625 bytes, and all flows ") {
		t.Error(err)
	}
}

// Records of flow logs are merged over all sources, and those that a later one repeats count once.
func TestRecordsOfSeveralSources(t *testing.T) {
	in := mergerOf(t, true)
	const start = int64(1769850000e9)
	const minute = int64(60e9)
	record := func(row, bytes, at int64, port int32) connections.Row {
		r := recordOf(row, bytes, start+at)
		r.Protocol = 6
		r.SrcPort = port
		r.DstPort = 443
		r.Observer = "e"
		return r
	}
	sources := []MergeSource{
		sourceOf(t, in, 1, "a.log", record(1, 100, 0, 1), record(2, 200, minute, 1), record(3, 500, 2*minute, 2)),
		sourceOf(t, in, 2, "b.log", record(1, 200, minute, 1), record(2, 400, 10*minute, 1)),
	}
	var flows, intervals rowsSink
	stats, err := in.Merge(t.Context(), sources, Tables{Flows: &flows, Intervals: &intervals})
	if err != nil {
		t.Fatal(err)
	}
	if stats.Flows != 3 || stats.Merged != 2 || stats.Repeated != 1 || stats.records != 5 ||
		stats.bytes != 1200 ||
		stats.largest != 500 || stats.FirstStartNS != start || stats.LastStartNS != start+10*minute ||
		stats.Sampling != "" {
		t.Errorf("%+v", stats)
	}
	want := []Correction{{"b.log", "a.log", 1}}
	if !slices.Equal(stats.Corrections, want) {
		t.Errorf("corrections %+v, want %+v", stats.Corrections, want)
	}
}

// A source corrects an earlier one if it lacks records within its time, and has the same name or at least
// half of the connections and times of either.
func TestCorrectionsOfSources(t *testing.T) {
	in := mergerOf(t, false)
	whole := sourceOf(t, in, 1, "a.csv", recordOf(1, 1, 10), recordOf(2, 2, 20), recordOf(3, 3, 30))
	part := sourceOf(t, in, 2, "b.csv", recordOf(1, 1, 10), recordOf(2, 3, 30))
	again := sourceOf(t, in, 3, "a.csv", recordOf(1, 1, 10), recordOf(2, 2, 20), recordOf(3, 3, 30))
	late := sourceOf(t, in, 4, "a.csv", recordOf(1, 3, 30), recordOf(2, 4, 40))
	half := part
	half.Records = 4
	less := part
	less.Records = 5
	for i, c := range []struct {
		sources []MergeSource
		shared  map[[2]int32]int64
		want    string
	}{
		{[]MergeSource{whole, part}, map[[2]int32]int64{{1, 2}: 2}, "[{b.csv a.csv 1}]"},
		{[]MergeSource{whole, part}, nil, "[]"},
		{[]MergeSource{whole, half}, map[[2]int32]int64{{1, 2}: 1}, "[]"}, // of three and four records
		{[]MergeSource{half, less}, map[[2]int32]int64{{2, 2}: 2}, "[]"},  // nothing is missing
		{[]MergeSource{whole, again}, map[[2]int32]int64{{1, 3}: 3}, "[]"},
		{[]MergeSource{part, late}, map[[2]int32]int64{{2, 4}: 1}, "[]"},
		{[]MergeSource{whole, late}, nil, "[]"}, // no record of whole from 30 on is missing
		{[]MergeSource{part, whole, again}, nil, "[]"},
	} {
		m := &merging{Ingester: in, sources: c.sources, stats: &MergeStats{}}
		err := m.corrections(t.Context(), c.shared)
		if err != nil || fmt.Sprint(m.stats.Corrections) != c.want {
			t.Errorf("%d: %v, %v, want %s", i, m.stats.Corrections, err, c.want)
		}
	}
	// A name that comes again corrects the last source of that name.
	part.File = "a.csv"
	m := &merging{Ingester: in, sources: []MergeSource{whole, again, part}, stats: &MergeStats{}}
	err := m.corrections(t.Context(), nil)
	if err != nil || len(m.stats.Corrections) != 1 {
		t.Errorf("%+v, %v", m.stats.Corrections, err)
	}
}
