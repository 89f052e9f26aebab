package headline

// A Measurement gives figures. Package main of the folder above has the function that measures each.
type Measurement struct {
	Name      string
	About     string // what is measured
	Sources   Sources
	WholeOnly bool     // the short form omits it
	Values    []string // names of its figures
	Texts     []string // names of its texts
}

// Find returns the measurement of a name, or nil.
func Find(name string) *Measurement {
	for i := range Measurements {
		if Measurements[i].Name == name {
			return &Measurements[i]
		}
	}
	return nil
}

// run is a whole run of a drawn workload. It does not enter the code that ingests logs.
var run = Sources{
	Packages: []string{"pipeline/summary"},
	Without:  []string{"stages/ingest", "pipeline/workloads", "datasets"},
	Files:    []string{"datasets/scenarios/small.yaml", "datasets/scenarios/large.yaml"},
}

var (
	ofIngest  = Sources{Packages: []string{"pipeline/workloads"}, Without: []string{"datasets"}}
	ofWhatIf  = Sources{Packages: []string{"pipeline/whatif"}, Without: run.Without, Files: run.Files}
	ofProgram = Sources{Packages: []string{"pipeline/cmd/parsimon"}, Without: run.Without, Files: run.Files}
	ofKernel  = Sources{Packages: []string{"simkernel/linkcase"}}
	ofNetwork = Sources{Packages: []string{"simkernel/network"}}
)

// Measurements are in the order in which they are made: those that say most in the least time are first.
var Measurements = []Measurement{
	{
		Name:    "kernel",
		About:   "the link kernel and the reference link simulator on 64 link cases, one thread",
		Sources: ofKernel,
		Values:  []string{"ours-ns", "reference-ns"},
	},
	{
		Name:    "estimates",
		About:   "estimates of scenario 47 (200,000 flows) and the reference's, two threads",
		Sources: run,
		Values:  []string{"independent-s", "flow-s", "reference-s"},
	},
	{
		Name:    "hosts",
		About:   "the whole network: a benchmark of three sizes with one and two workers",
		Sources: ofNetwork,
		Values: []string{"ns-256", "ns-2048", "ns-6144", "two-256", "two-2048", "two-6144", "apart-256",
			"apart-2048", "apart-6144"},
	},
	{
		Name: "start",
		About: "runs of one packet on 256 hosts, and question `slowdown_by_size` about it: processor time of the " +
			"whole command",
		Sources: ofProgram,
		Values:  []string{"run-s", "run-before-s", "file-s", "file-before-s", "question-s", "question-before-s"},
	},
	{
		Name:    "ingest",
		About:   "ingest of 2 M VPC records of 256 hosts, and DuckDB's plain query",
		Sources: ofIngest,
		Values: []string{"us", "before-us", "duckdb-us", "krecords", "duckdb-krecords", "mb", "before-mb",
			"duckdb-mb"},
	},
	{
		Name:    "formats",
		About:   "ingest of 500,000 records in four other formats, and DuckDB's plain query",
		Sources: ofIngest,
		Values: []string{"nfdump-us", "nfdump-before-us", "nfdump-duckdb-us", "ipfix-us", "ipfix-before-us",
			"ipfix-duckdb-us", "goflow2-us", "goflow2-before-us", "goflow2-duckdb-us", "csv-us", "csv-before-us",
			"csv-duckdb-us"},
	},
	{
		Name:    "large",
		About:   "0.3 s of 6,144 hosts by `independent`, with clustering and without, and by `flow`",
		Sources: run,
		Values: []string{"independent-s", "independent-cpu-s", "independent-before-cpu-s", "independent-ns",
			"independent-mb", "stages-us", "stages-before-us", "simulate-ns", "kernel-ns", "route-s",
			"sample-s",
			"intervals-s", "clustered-cpu-s", "clustered-cases", "independent-cases",
			"flow-s", "flow-cpu-s", "flow-before-cpu-s",
			"flow-ns", "flow-mb", "flow-bytes", "independent-bytes"},
		Texts: []string{"flows", "packet-hops"},
	},
	{
		Name:    "sweep",
		About:   "a sweep of 96 cables by `exact`, one worker and two; one of 32 cables by `independent`",
		Sources: ofWhatIf,
		Values:  []string{"one-s", "two-s", "before-s", "cable-cpu-s"},
		Texts:   []string{"base"},
	},
	{
		Name:    "ns3",
		About:   "stage `exact` with one worker, and the paper's ns-3, on the same flows",
		Sources: run,
		Values:  []string{"exact-ns", "ns3-ns"},
		Texts:   []string{"flows"},
	},
	{
		Name:    "large-exact",
		About:   "6,144 hosts by `exact`, one worker and two: stage `exact`, per packet-hop",
		Sources: run,
		Values:  []string{"one-ns", "one-before-ns", "two-ns", "two-cpu-ns", "mb"},
		Texts:   []string{"arrivals"},
	},
	{
		Name:    "forecast",
		About:   "the predicted processor time of twenty scenarios and the time that they take",
		Sources: run,
		Values:  []string{"error-percent"},
		Texts:   []string{"within-half", "worst"},
	},
	{
		Name:    "what-if",
		About:   "a failed cable of `small`: as a what-if, and as a run from nothing",
		Sources: ofWhatIf,
		Values:  []string{"independent-s", "independent-run-s", "flow-s", "flow-run-s"},
	},
	{
		Name:    "transports",
		About:   "the link kernel with each transport",
		Sources: ofKernel,
		Values:  []string{"dctcp-ns", "timely-ns", "dcqcn-ns", "swift-ns", "hpcc-ns"},
	},
	{
		Name:    "parts",
		About:   "the whole network of 256 hosts with the parts of a switch, one worker",
		Sources: ofNetwork,
		Values:  []string{"none-ns", "buffers-ns", "pfc-ns", "classes-2-ns", "classes-8-ns", "cubic-ns"},
	},
	{
		Name:    "questions",
		About:   "twelve questions of the library about a run of 6,144 hosts, as whole commands",
		Sources: ofProgram,
		Values:  []string{"cpu-s"},
		Texts:   []string{"flows"},
	},
	{
		Name:    "tour",
		About:   "what `make run` prints",
		Sources: run,
		Texts:   []string{"lines"},
	},
	{
		Name:    "accuracy",
		About:   "errors of p99 in 14 scenarios that the paper's ns-3 simulated, in percent: mean and largest",
		Sources: Sources{Files: []string{"pipeline/testdata/versions.json"}}, // it has digests of rows
		Values: []string{"published-mean", "published-worst", "independent-mean", "independent-worst", "flow-mean",
			"flow-worst", "auto-mean", "auto-worst"},
	},
	{
		Name:      "5s-independent",
		About:     "5 s of 6,144 hosts by `independent`, two workers",
		Sources:   run,
		WholeOnly: true,
		Values:    []string{"s", "cpu-s", "mb", "before-s", "before-cpu-s"},
	},
	{
		Name:      "5s-flow",
		About:     "the same by `flow`",
		Sources:   run,
		WholeOnly: true,
		Values:    []string{"s", "cpu-s", "mb", "before-s", "before-cpu-s"},
	},
	{
		Name:      "5s-exact",
		About:     "the same by `exact`",
		Sources:   run,
		WholeOnly: true,
		Values:    []string{"s", "cpu-s", "mb", "before-s", "before-cpu-s"},
	},
	{
		Name:      "ingest-20m",
		About:     "ingest of 20 M VPC records",
		Sources:   ofIngest,
		WholeOnly: true,
		Values:    []string{"us", "krecords", "mb"},
	},
	{
		Name:      "ingest-100m",
		About:     "ingest of 100 M VPC records",
		Sources:   ofIngest,
		WholeOnly: true,
		Values:    []string{"us", "krecords", "mb"},
	},
	{
		Name:      "make-test",
		About:     "`make unit` with an empty build cache; changes of tests do not make it older",
		Sources:   Sources{Packages: []string{"pipeline/cmd/parsimon"}},
		WholeOnly: true,
		Values:    []string{"minutes"},
	},
}
