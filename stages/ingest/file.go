package ingest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/stages/topology"
)

// File reads one flow file, of any mapping, into table flows, sorted by start, and writes the rows that
// cannot be simulated to a Parquet file of table rejects. It works within the memory limit and spills to
// TmpDir. It returns an error if there are more rejects than Options.MaxRejects.
func File(ctx context.Context, n *topology.Network, file string, o Options, out Tables) (stats Stats,
	err error) {
	if o.Mapping == nil {
		if o.Mapping, err = DetectFormat(file); err != nil { // other names are read as CSV
			if o.Mapping, err = FormatMapping("csv"); err != nil {
				return stats, err
			}
		}
	}
	if _, err := Digest(ctx, "flow file", file); err != nil {
		return stats, err
	}
	in, err := NewIngester(ctx, n, o)
	if err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	f, err := in.readFile(ctx, file)
	if err != nil {
		return stats, err
	}
	source := MergeSource{N: 1, File: file, FileStats: f}
	stats = Stats{
		Rows: f.Rows, Reverse: f.Reverse, SetAside: f.SetAside, Dependencies: f.Waits, ComputeSteps: f.ComputeSteps,
	}
	if stats.MergeStats, err = in.Merge(ctx, []MergeSource{source}, out); err != nil {
		return stats, inFile(file, err)
	}
	if f.Waits > 0 {
		if stats.Rejects > 0 {
			return stats, inFile(file, errors.New("column after: flow ids are in several rows, which one is meant?"))
		}
		stats.DependenciesFile = filepath.Join(o.TmpDir, "dependencies.parquet")
		if err := in.dependencies(ctx, &f, stats.flowsFile, stats.DependenciesFile); err != nil {
			return stats, inFile(file, err)
		}
	}
	if err := in.allRejects(ctx, &stats, &f); err != nil {
		return stats, err
	}
	err = CheckRejects(file, Tally{
		Rows: stats.Rows, Reverse: stats.Reverse, Rejects: stats.Rejects, SetAside: stats.SetAside,
		Reasons: stats.Reasons,
	}, o.MaxRejects)
	if err != nil {
		return stats, err
	}
	stats.Notes = in.Notes()
	return stats, CheckSpan("flow file "+file, stats.FirstStartNS, stats.LastStartNS)
}

// readFile reads the source file of File, its regular rows without SQL.
func (in *Ingester) readFile(ctx context.Context, file string) (f FileStats, err error) {
	of := []*Mapping{in.o.Mapping}
	if MayBeRegular(of, file) {
		f, regular, err := in.readRegular(ctx, file)
		if regular || err != nil {
			return f, err
		}
	}
	return in.File(ctx, of, file, 1)
}

// readRegular is RegularFile with tables in TmpDir.
func (in *Ingester) readRegular(ctx context.Context, file string) (f FileStats, regular bool, err error) {
	recordsFile := filepath.Join(in.o.TmpDir, "records.parquet")
	rejectsFile := filepath.Join(in.o.TmpDir, "file-rejects.parquet")
	records, err := in.o.Create(schema.Records, recordsFile)
	if err != nil {
		return f, false, err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	rejects, err := in.o.Create(schema.Rejects, rejectsFile)
	if err != nil {
		return f, false, err
	}
	defer func() { err = errors.Join(err, rejects.Close()) }()
	f, regular, err = in.RegularFile(ctx, in.o.Mapping, file, 1, FileTables{Records: records, Rejects: rejects})
	f.RecordsFile = recordsFile
	f.RejectsFile = rejectsFile
	return f, regular, err
}

// allRejects collects the rows that reading and merging rejected in one file of table rejects.
func (in *Ingester) allRejects(ctx context.Context, stats *Stats, f *FileStats) error {
	var lists []string
	if f.Rejects > 0 {
		lists = append(lists, f.RejectsFile)
	}
	if stats.Rejects > 0 {
		lists = append(lists, stats.RejectsFile)
	}
	stats.Rejects += f.Rejects
	if lists == nil {
		return nil
	}
	stats.RejectsFile = filepath.Join(in.o.TmpDir, "rejects.parquet")
	stats.Reasons = AddReasons(f.Reasons, stats.Reasons)
	query := "SELECT * FROM " + duckdb.ScanParquet(lists...) + ` ORDER BY "row"`
	return in.exec(ctx, copyTo(schema.Rejects, query, stats.RejectsFile))
}

// These are the limits of a flow that can be simulated.
const (
	maxFlowBytes = int64(1) << 50
	maxBytes     = 1 << 62 // of all flows
	maxStartNS   = int64(1) << 62
	// maxSpanNS is the longest time that the kernel can represent in picoseconds and that leaves time for the
	// last flow to finish.
	maxSpanNS = int64(15 * 24 * 3600 * 1e9)
)

// Options determine how source files are read, and the resources that reading them may use.
type Options struct {
	Mapping *Mapping
	// Hosts and Labels are files, CSV or Parquet. They are empty if there are none. Hosts has columns address
	// and node, Labels has cidr, port, service, vnet and traffic_model, or one of their other names. Addresses
	// may be CIDRs, of which the longest match applies. An empty port matches any port. The model is that of
	// what connections of the service send.
	Hosts, Labels string
	LabelsFirst   bool // labels of the table take precedence over those of the rows
	Files
	// Domains are suffixes that names may have or not: with example.com, web-7.example.com and web-7 are the
	// same name.
	Domains []string
	// OffFabric lists CIDRs. Rows with an address in one of them that is not a host are set aside. "any"
	// contains all addresses.
	OffFabric   []string
	TmpDir      string // for DuckDB's spill files and for the result files
	MemoryBytes int64  // memory limit of DuckDB
	Threads     int
	MaxRejects  float64 // fraction of the rows that may be rejected, 0 to 1

	Seed uint64 // of synthetic starts
	// GapSigma is the shape of the log-normal gaps between synthetic starts. 0 means DefaultGapSigma.
	GapSigma float64
	// IdleNS separates flows of one connection: a record that starts later than this after the end of the
	// earlier ones begins another flow. 0 means DefaultIdleNS.
	IdleNS int64
	// SamplingRate applies to rows of a flow log that do not state it: the number of packets that a sampled
	// packet represents. 0 means 1.
	SamplingRate int64
}

// Files reads and writes Parquet files of tables.
type Files struct {
	// Open returns the rows of a file.
	Open func(t schema.Table, file string) schema.Batches `json:"-"`
	// Create begins a file, which the caller closes. Only File needs it.
	Create func(t schema.Table, file string) (schema.SinkFile, error) `json:"-"`
	// NoMerge means that Merge is not called, so that records need not be collected for it.
	NoMerge bool
}

// Defaults of merging. Flow logs divide connections into records of one or ten minutes. Each has the times of
// its own first and last packet, so a minute between two records had no packets. The shape of the gaps is the
// smaller one of the paper's two (section 5.1).
const (
	DefaultIdleNS   = int64(60e9)
	DefaultGapSigma = 1.0
)

// RejectCount is the number of rows that were rejected for one reason.
type RejectCount struct {
	Reason  string `json:"reason"`
	Rows    int64  `json:"rows"`
	Example string `json:"example"` // the first such row
	// SetAside means that these rows are not faults, so they do not count for Options.MaxRejects.
	SetAside bool `json:"set_aside,omitempty"`
	// Unknown lists the addresses with the most bytes that are not hosts, if that is the reason.
	Unknown []UnknownAddress `json:"unknown_addresses,omitempty"`
}

// Stats counts the rows of one flow file: Rows + Reverse = Flows + Merged + Rejects.
type Stats struct {
	MergeStats       // with the rejects of reading
	Rows             int64
	Reverse          int64 // rows with bytes in both directions
	SetAside         int64 // as in FileStats
	Dependencies     int64 // rows of table dependencies, in DependenciesFile
	DependenciesFile string
	ComputeSteps     int64 // of Flows
	Notes            []string
}

// A Tally is what became of the rows of a file or of a workload. A row with bytes in both directions adds one
// to Reverse, and up to two to Rejects and SetAside.
type Tally struct {
	Rows, Reverse     int64
	Rejects, SetAside int64
	Reasons           []RejectCount
}

// what returns what the tally counts, such as "5 rows".
func (t *Tally) what() string {
	if t.Reverse == 0 {
		return fmt.Sprintf("%d rows", t.Rows)
	}
	return fmt.Sprintf("%d directions of %d rows", t.Rows+t.Reverse, t.Rows)
}

// CheckRejects returns an error that lists the reasons if more than the fraction limit of the rows was
// rejected. The second direction of a row counts as another row. Rows that were set aside do not count, and
// are listed last.
func CheckRejects(file string, t Tally, limit float64) error {
	faulty := t.Rejects - t.SetAside
	// A quotient of whole numbers is rounded like the limit: 29 of 100 rows are 0.29, but 0.29 * 100 < 29.
	if faulty == 0 || float64(faulty)/float64(t.Rows+t.Reverse) <= limit {
		return nil
	}
	hint := ""
	var faults, aside []string
	for _, r := range t.Reasons {
		if r.SetAside {
			aside = append(aside, r.String())
			continue
		}
		fault := r.String()
		advice := r.Advice()
		if advice != "" {
			fault += "\n" + advice
		}
		faults = append(faults, fault)
		reads := timeFunctions.FindStringSubmatch(r.Example)
		if strings.HasPrefix(r.Reason, "start_ns is not") && reads != nil {
			hint = "; times such as " + reads[0] + " are read by function " +
				map[string]string{"T": "rfc3339_ns", " ": "datetime_ns"}[reads[1]] + " of a --mapping"
		}
	}
	if aside != nil {
		hint += fmt.Sprintf("; set aside, and not counted: %d rows: %s", t.SetAside,
			strings.Join(aside, "; "))
	}
	return fmt.Errorf("%s: %d of %s cannot be simulated, more than the accepted %g%% (--max-rejects): %s%s",
		file, faulty, t.what(), 100*limit, strings.Join(faults, "; "), hint)
}

// timeFunctions matches a time, and the letter that determines which function of mappings parses it.
var timeFunctions = regexp.MustCompile(`\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d[.\dZ+:-]*`)

// CheckSpan returns an error if a workload lasts longer than the simulator's clock can represent.
func CheckSpan(what string, firstNS, lastNS int64) error {
	span := lastNS - firstNS
	if span > maxSpanNS {
		return fmt.Errorf("%s: starts span %.1f days, the simulator can represent %d: are the times in ns? (of a "+
			"workload, take a part: --from, --to)", what, float64(span)/86400e9, maxSpanNS/86400e9)
	}
	return nil
}
