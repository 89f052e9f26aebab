// Command measure repeats the measurements that the pages of this repository cite.
//
//	go run ./pipeline/cmd/measure NAME [flags] [ARGUMENT …]
//
// Each measurement is one function. It runs bin/parsimon (make build) as a user would, in new lakes, and
// prints Markdown tables. With --write, it also writes them to datasets/results/NAME.md, together with the
// commit, the date and the machine. Measurement paper writes datasets/PAPER.md (paper.go).
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// A measurement is a page of results and the function that measures them.
type measurement struct {
	name    string
	args    string // meaning of the arguments; "" for none
	summary string
	run     func(ctx context.Context, b *bench)
}

func measurements() []measurement {
	return []measurement{
		{"accuracy", "SCENARIO", "estimators against ns-3 on the shared scenarios",
			compared("95", (*bench).groundTruths, "independent", "flow", "auto")},
		{"own-accuracy", "SCENARIO", "estimators against --exact on the shipped scenarios",
			compared("parking-lot/short-correlated", shipped("accuracy", "parking-lot"), "independent", "flow",
				"auto")},
		{"constants", "SCENARIO", "unusual transport constants, against --exact",
			compared("constants/jumbo-9000", shipped("constants"), "flow", "auto")},
		{"honesty", "SCENARIO", "warnings and intervals of the default against its errors",
			compared("mini-mix", otherKinds, "flow", "auto")},
		{"held-out", "SCENARIO", "the same on networks and traffic of other kinds, against --exact",
			compared("held-out/microbursts", shipped("held-out"), "flow", "auto")},
		{"loads", "SCENARIO", "the load of the busiest link of the shipped scenarios, asked and drawn",
			shippedLoads},
		{"lengths", "MILLISECONDS", "the error of independent by the length of the workload", measureLengths},
		{"independent-coverage", "", "95% intervals of independent, over drawn workloads of five kinds",
			measureCoverage},
		{"paper", "ITEM", "the paper's evaluation again, with the truth beside; it goes on where it was " +
			"interrupted", repeatPaper},
		{"days", "DAY", "flow logs of generated days: the bytes of each link in each minute against the truth",
			measureDays},
		{"bench-kernel", "", "link kernel against the reference link simulator", benchKernel},
		{"bench-run", "SCENARIO", "a whole estimate against the reference", benchRun},
		{"forecast", "SCENARIO", "the time that a run predicts, and the time that it takes", measureForecast},
		{"bench-exact", "SCENARIO", "two passes of link cases against the whole network", benchExact},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:])
	stop()
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// command runs one measurement in a temporary directory, which it removes.
func command(ctx context.Context, args []string) (err error) {
	b := &bench{}
	flags := pflag.NewFlagSet("measure", pflag.ContinueOnError)
	flags.StringVar(&b.program, "parsimon", "bin/parsimon", "the program to measure")
	flags.StringVar(&b.shared, "shared", "../shared", "folder of the ground truth and of the reference's "+
		"programs")
	flags.BoolVar(&b.short, "short", false, "a small part of the measurement, to try it")
	flags.BoolVar(&b.write, "write", false, "write datasets/results/NAME.md")
	flags.StringVar(&b.records, "records", ".cache/measured",
		"of paper, lengths and days: folder of what is measured already")
	flags.Float64Var(&b.minutes, "minutes", -1, "of paper, lengths and days: begin no run after N "+
		"minutes; 0 only writes the page (default: no limit, 15 with --short)")
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage(flags)) }
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return nil
	}
	b.args = flags.Args()[1:]
	if b.short && b.minutes < 0 {
		b.minutes = 15
	}
	for _, m := range measurements() {
		if m.name != flags.Arg(0) {
			continue
		}
		if b.write && (b.short || len(b.args) > 0) {
			return errors.New("--write is for the whole measurement: without --short and arguments")
		}
		if b.write && m.name == "paper" {
			return errors.New("--write: paper always writes its page, datasets/PAPER.md")
		}
		if b.tmp, err = os.MkdirTemp("", "measure-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(b.tmp)) }()
		m.run(ctx, b)
		if b.err != nil || !b.write {
			return b.err
		}
		text := fmt.Sprintf("# %s\n\n%s%s. Written by `make %s ARGS=--write`.\n\n%s\n\n%s\n", m.name,
			strings.ToUpper(m.summary[:1]), m.summary[1:], m.name, b.provenance(ctx),
			strings.TrimSpace(b.out.String()))
		return os.WriteFile(filepath.Join("datasets", "results", m.name+".md"), []byte(text), 0o644)
	}
	return fmt.Errorf("no measurement %q: \"measure\" lists them", flags.Arg(0))
}

// provenance returns the commit, the date and the machine of a measurement.
func (b *bench) provenance(ctx context.Context) string {
	commit := b.execute(ctx, nil, "git", "describe", "--always", "--dirty", "--exclude=*")
	info, _ := os.ReadFile("/proc/cpuinfo") // absent on other systems
	processor := runtime.GOARCH
	found := regexp.MustCompile(`(?m)^model name\s*: (.+)$`).FindSubmatch(info)
	if found != nil {
		processor = string(found[1])
	}
	return fmt.Sprintf("Measured at commit `%s` on %s, %d cores (%s).", strings.TrimSpace(commit),
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), processor)
}

func usage(flags *pflag.FlagSet) string {
	var s strings.Builder
	s.WriteString("measure NAME [flags] [ARGUMENT …]\n\n")
	for _, m := range measurements() {
		fmt.Fprintf(&s, "  %-19s%-13s%s\n", m.name, m.args, m.summary)
	}
	return s.String() + "\n" + flags.FlagUsages()
}

// A bench has everything that measurements share: the settings of the command line, a temporary directory,
// and the output.
type bench struct {
	program, shared string
	short, write    bool
	args            []string
	records         string    // folder of what is measured already
	until           time.Time // no run begins later; zero: no limit
	minutes         float64   // after which no run begins; negative: no limit
	missing         []string  // sections that the paper omits without the shared folder

	tmp       string
	out       strings.Builder // the Markdown that was printed
	processor time.Duration   // of the last program, user and system
	err       error
}

// fail records the first error. After an error nothing is run or printed, and all values are zero.
func (b *bench) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// printf prints a line of the result.
func (b *bench) printf(format string, args ...any) {
	if b.err != nil {
		return
	}
	line := fmt.Sprintf(format, args...) + "\n"
	b.out.WriteString(line)
	fmt.Print(line)
}

// header prints the first two lines of a table.
func (b *bench) header(cells ...string) {
	b.printf("\n| %s |\n|%s", strings.Join(cells, " | "), strings.Repeat("---|", len(cells)))
}

// row prints a line of a table.
func (b *bench) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
	}
	b.printf("| %s |", strings.Join(text, " | "))
}

// lake returns a new lake, and removes the previous one.
func (b *bench) lake() string {
	path := filepath.Join(b.tmp, "lake")
	b.fail(os.RemoveAll(path))
	return path
}

// names returns the arguments or, without arguments, the given names. With --short it returns the short list.
func (b *bench) names(short, long []string) []string {
	switch {
	case len(b.args) > 0:
		return b.args
	case b.short:
		return short
	}
	return long
}

// sharedPath returns a path below the shared folder, which must exist.
func (b *bench) sharedPath(elem ...string) string {
	path, err := filepath.Abs(filepath.Join(append([]string{b.shared}, elem...)...))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		b.fail(fmt.Errorf("nothing to compare with: %w (--shared)", err))
	}
	return path
}

// file writes a temporary file.
func (b *bench) file(name, content string) string {
	path := filepath.Join(b.tmp, name)
	b.fail(os.WriteFile(path, []byte(content), 0o644))
	return path
}

// execute runs a program and returns its stdout.
func (b *bench) execute(ctx context.Context, env []string, program string, args ...string) string {
	if b.err != nil {
		return ""
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, log bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &log
	if err := cmd.Run(); err != nil {
		b.fail(fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, log.String()))
		return ""
	}
	b.processor = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return out.String()
}

// parsimon runs a command of the program.
func (b *bench) parsimon(ctx context.Context, args ...string) string {
	return b.execute(ctx, nil, b.program, append(args, "--quiet")...)
}

// query answers a SELECT. The names of its columns are the JSON names of T's fields.
func query[T any](ctx context.Context, b *bench, lake, sql string) (rows []T) {
	b.decode(b.parsimon(ctx, "query", "--lake", lake, "--format", "json", "--sql", sql), &rows)
	return rows
}

// question answers a question of the library about an estimate.
func question[T any](ctx context.Context, b *bench, lake, name string, e estimate) (rows []T) {
	b.decode(b.parsimon(ctx, "query", name, "--lake", lake, "--format", "json",
		"--param", "scenario="+e.Scenario, "--param", "variant="+e.Variant), &rows)
	return rows
}

// decode reads JSON.
func (b *bench) decode(text string, to any) {
	if b.err == nil {
		b.fail(json.Unmarshal([]byte(text), to))
	}
}

// match returns the groups of the first match of a pattern. It is an error if there is none.
func (b *bench) match(text, pattern string) []string {
	expression := regexp.MustCompile("(?m)" + pattern)
	found := expression.FindStringSubmatch(text)
	if found != nil {
		return found[1:]
	}
	b.fail(fmt.Errorf("no %q in:\n%s", pattern, text))
	return make([]string, expression.NumSubexp())
}

// number is match for a pattern with one group, a number.
func (b *bench) number(text, pattern string) float64 { return b.parse(b.match(text, pattern)[0]) }

func (b *bench) parse(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	b.fail(err)
	return x
}

// An estimate is the output of a run of parsimon.
type estimate struct {
	Scenario    string `json:"scenario_id"`
	Variant     string
	Flows       int64
	Seconds     float64
	Stages      []struct{ Seconds float64 }
	Percentiles []slowdowns
	Services    []slowdowns
	LinkCases   struct {
		Cases         int64
		LongestCaseNS int64 `json:"longest_case_ns"`
	} `json:"link_cases"`
}

// slowdowns are percentiles of the slowdown of a flow size or of a service.
type slowdowns struct {
	SizeBin string `json:"size_bin"`
	Service string
	Flows   int64
	P50     float64
	P90     float64
	P99     float64
	P999    float64
}

func (s slowdowns) percentiles() percentiles { return percentiles{s.P50, s.P90, s.P99, s.P999} }

// where selects the estimate's rows in SQL.
func (e estimate) where() string {
	return fmt.Sprintf("scenario = '%s' AND variant = '%s'", e.Scenario, e.Variant)
}

// run estimates a scenario. The arguments are those of parsimon run.
func (b *bench) run(ctx context.Context, lake string, args ...string) (e estimate) {
	b.decode(b.parsimon(ctx, append([]string{"run", "--lake", lake, "--format", "json"}, args...)...), &e)
	return e
}

// percentiles has the errors of p50, p90, p99 and p99.9 of slowdown: estimate / truth - 1.
type percentiles [4]float64

func (p percentiles) String() string {
	return fmt.Sprintf("%s / %s / %s / %s", percent(p[0]), percent(p[1]), percent(p[2]), percent(p[3]))
}

func (p percentiles) p99() float64 { return p[2] }

// percent prints an error with its sign.
func percent(x float64) string {
	text := fmt.Sprintf("%+.1f%%", 100*x)
	if text != "+0.0%" && text != "-0.0%" {
		return text
	}
	return "0.0%"
}

// share prints a fraction without decimals.
func share(x float64) string { return fmt.Sprintf("%.0f%%", 100*x) }

// sizeBins are the bins of flow size in the lake.
var sizeBins = []string{"<10 KB", "10-100 KB", "100 KB-1 MB", ">1 MB"}

// A validation has the errors of an estimate relative to a reference, by flow size and for "all".
type validation map[string]bin

type bin struct {
	flows  int64
	errors percentiles
}

// worstBin returns the p99 error of the flow size with the largest one, among those with over 1,000 flows.
func (v validation) worstBin() (worst float64) {
	for _, name := range sizeBins {
		bin := v[name]
		if bin.flows > 1000 && abs(bin.errors.p99()) >= abs(worst) {
			worst = bin.errors.p99()
		}
	}
	return worst
}

// bins prints the p99 errors by flow size, – for bins of 1,000 flows or fewer.
func (v validation) bins() string {
	var text []string
	for _, name := range sizeBins {
		if v[name].flows > 1000 {
			text = append(text, percent(v[name].errors.p99()))
		} else {
			text = append(text, "–")
		}
	}
	return strings.Join(text, " / ")
}

// validate compares an estimate with a reference: exact or a Parquet file.
func (b *bench) validate(ctx context.Context, lake string, e estimate, truth string) validation {
	b.parsimon(ctx, "validate", "--lake", lake, "--scenario", e.Scenario+"@"+e.Variant, "--truth", truth)
	v := validation{}
	for _, r := range query[struct {
		Bin    string `json:"size_bin"`
		Flows  int64
		Errors percentiles
	}](ctx, b, lake, fmt.Sprintf(`
		SELECT size_bin, any_value(flows) AS flows, list(error ORDER BY quantile) AS errors FROM validations
		WHERE %s AND (truth = 'exact') = %t
		GROUP BY size_bin`, e.where(), truth == "exact")) {
		v[r.Bin] = bin{r.Flows, r.Errors}
	}
	if _, ok := v["all"]; !ok {
		b.fail(fmt.Errorf("validation of %s %s has no row for all flows", e.Scenario, e.Variant))
	}
	return v
}

// Figures have names.
type figures struct {
	values []float64
	names  []string
}

func (f *figures) add(name string, value float64) {
	f.values = append(f.values, value)
	f.names = append(f.names, name)
}

// magnitudes returns the mean of the absolute values, and the largest one with its name.
func (f figures) magnitudes() (mean, worst float64, name string) {
	for i, v := range f.values {
		mean += abs(v) / float64(len(f.values))
		if abs(v) >= worst {
			worst = abs(v)
			name = f.names[i]
		}
	}
	return mean, worst, name
}

func (f figures) median() float64 {
	v := slices.Sorted(slices.Values(f.values))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// over prints the ratios to other values of the same rounds: median, minimum and maximum.
func (f figures) over(o figures) string {
	var ratio figures
	for i := range f.values {
		ratio.add("", f.values[i]/o.values[i])
	}
	return fmt.Sprintf("**%.1f** (%.1f to %.1f)", ratio.median(), slices.Min(ratio.values),
		slices.Max(ratio.values))
}

func abs(x float64) float64 { return max(x, -x) }

func decimal(x float64) string { return fmt.Sprintf("%.1f", x) }

// An estimate with an error above the first limit must have a warning, and one below the second should have
// none.
const (
	namedError    = 0.1
	harmlessError = 0.03
)

// loads has the mean load of the 10% most loaded links of an estimate, and the largest load.
type loads struct {
	Top10   float64 `json:"top10_mean_load"`
	Largest float64 `json:"max_load"`
}

func (b *bench) loads(ctx context.Context, lake string, e estimate) loads {
	for _, l := range question[loads](ctx, b, lake, "load_top10", e) {
		return l
	}
	return loads{}
}

// undrawn returns the percentiles of slowdown of an estimate by independent if flows keep the delays that
// were simulated for them, instead of drawing delays from buckets. The delays of links are still added.
func (b *bench) undrawn(ctx context.Context, lake string, e estimate) (of percentiles) {
	for _, row := range query[struct{ Slowdowns percentiles }](ctx, b, lake, `
		SELECT quantile_cont(1 + delay_ns / ideal_ns, [0.5, 0.9, 0.99, 0.999]) AS slowdowns
		FROM (SELECT flow_row, sum(case_delay_ns) AS delay_ns FROM hop_contributions_all WHERE `+e.where()+`
			GROUP BY flow_row)
		JOIN (FROM slowdowns_all WHERE `+e.where()+`) USING (flow_row)`) {
		of = row.Slowdowns
	}
	return of
}

// serviceErrors has the errors of a service relative to a reference.
type serviceErrors struct {
	Service, Truth string
	P50            float64 `json:"p50_error"`
	P90            float64 `json:"p90_error"`
	P99            float64 `json:"p99_error"`
	P999           float64 `json:"p999_error"`
}

// A judged estimate has been compared with a reference.
type judged struct {
	errors   percentiles // of all flows, or of service main
	bySize   validation
	warnings []string
	holds    []bool // the intervals of p50, p90, p99 and p99.9 of all flows contain the truth
}

// judge compares an estimate with the reference. Bounds of intervals are known to the width of a cell of
// slowdown, 0.2%.
func (b *bench) judge(ctx context.Context, lake string, e estimate, truth string) judged {
	j := judged{bySize: b.validate(ctx, lake, e, truth)}
	j.errors = j.bySize["all"].errors
	for _, s := range question[serviceErrors](ctx, b, lake, "error_by_service", e) {
		if s.Service == "main" && s.Truth == "exact" {
			j.errors = percentiles{s.P50, s.P90, s.P99, s.P999}
		}
	}
	for _, r := range query[struct{ Kind string }](ctx, b, lake,
		"SELECT DISTINCT kind FROM warnings_all WHERE "+e.where()+" ORDER BY kind") {
		j.warnings = append(j.warnings, r.Kind)
	}
	for _, r := range query[struct{ Holds bool }](ctx, b, lake, `
		SELECT v.true_slowdown BETWEEN i.lo / 1.002 AND i.hi * 1.002 AS holds
		FROM (FROM intervals_all WHERE `+e.where()+` AND size_bin = 'all' AND service IS NULL AND vnet IS NULL) i
		JOIN validations v USING (scenario, variant, size_bin, quantile) ORDER BY quantile`) {
		j.holds = append(j.holds, r.Holds)
	}
	return j
}

// marks shows which intervals contain the reference.
func (j judged) marks() string {
	var text []string
	for _, holds := range j.holds {
		text = append(text, map[bool]string{true: "yes", false: "no"}[holds])
	}
	return strings.Join(text, " / ")
}

// worst returns the largest error of the four percentiles, and of p99 by flow size.
func (j judged) worst() float64 {
	worst := abs(j.bySize.worstBin())
	for _, x := range j.errors {
		worst = max(worst, abs(x))
	}
	return worst
}

// A tally counts, over scenarios, how accurate an estimate was, and how often its warnings were right.
type tally struct {
	p99                      figures
	unnamed, named, harmless []string
	warned, intervals, held  int
}

func (t *tally) add(name string, j judged) {
	t.p99.add(name, j.errors.p99())
	worst := j.worst()
	warned := len(j.warnings) > 0
	switch {
	case worst >= namedError && !warned:
		t.unnamed = append(t.unnamed, name)
	case worst >= namedError:
		t.named = append(t.named, name)
	case warned && worst < harmlessError:
		t.harmless = append(t.harmless, name)
	}
	if warned {
		t.warned++
	}
	for _, holds := range j.holds {
		t.intervals++
		if holds {
			t.held++
		}
	}
}

func (t *tally) print(b *bench, way string) {
	mean, worst, name := t.p99.magnitudes()
	b.printf("\n%s:\n\n- mean |p99 error| %.1f%%, largest %.1f%% (%s)", way, 100*mean, 100*worst, name)
	b.printf("- errors of %.0f%% and more with a warning: %s; without: %s", 100*namedError, listed(t.named),
		listed(t.unnamed))
	b.printf("- scenarios with warnings: %d; with warnings, and errors below %.0f%% only: %s", t.warned,
		100*harmlessError, listed(t.harmless))
	b.printf("- intervals that contain the truth: %d of %d", t.held, t.intervals)
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", len(names), strings.Join(names, ", "))
}

// A source is a scenario with its reference.
type source struct {
	name  string
	flags []string // of parsimon run
	truth string   // exact, or a Parquet file
	// The errors of the published code, and of that code with repaired ECMP. All are 0 if there are none.
	beside, repaired percentiles
}

// published prints the published errors.
func (s source) published() string {
	if s.beside == (percentiles{}) {
		return "–"
	}
	return s.beside.String()
}

// sources finds scenarios. Numbers are those of the paper's evaluation. Names are those of the shared folder
// hard. Both have FCTs of the paper's ns-3 or of a simulation of the whole network. FOLDER/NAME is a shipped
// scenario, whose whole network is simulated.
func (b *bench) sources(names []string) (all []source) {
	for _, name := range names {
		if strings.Contains(name, "/") {
			all = append(all, source{name: name, flags: []string{name}, truth: "exact"})
			continue
		}
		var dir, topology, truth string
		var published, repaired percentiles
		if _, err := strconv.Atoi(name); err != nil {
			dir = b.sharedPath("reference", "hard", name)
			truth = "exact.parquet"
			if _, err := os.Stat(filepath.Join(dir, truth)); err != nil {
				truth = "ns3.parquet"
			}
			topology = filepath.Join(dir, "topology.json")
		} else {
			dir = b.sharedPath("reference", "scenarios", name)
			truth = "ns3.parquet"
			var about struct{ Topology string }
			text, err := os.ReadFile(filepath.Join(dir, "scenario.json"))
			b.fail(err)
			b.decode(string(text), &about)
			topology = b.sharedPath("reference", "topologies", about.Topology+".json")
			baseline, err := os.ReadFile(b.sharedPath("reference", "scenarios", "baseline.csv"))
			b.fail(err)
			published = b.baseline(string(baseline), name+",as published")
			repaired = b.baseline(string(baseline), name+",ECMP repaired")
		}
		// with the paper's window
		all = append(all, source{name: name, truth: filepath.Join(dir, truth), beside: published,
			repaired: repaired,
			flags: []string{"--topology", topology, "--flows", filepath.Join(dir, "flows.parquet"),
				"--window", "18KB"}})
	}
	return all
}

// baseline returns the percentiles that follow a key in a file of errors.
func (b *bench) baseline(text, key string) (of percentiles) {
	for i, x := range b.match(text, "^"+key+strings.Repeat(`,([^,\n]+)`, len(of))) {
		of[i] = b.parse(x)
	}
	return of
}

// groundTruths lists the scenarios of the paper's evaluation, by number.
func (b *bench) groundTruths() (names []string) {
	entries, err := os.ReadDir(b.sharedPath("reference", "scenarios"))
	b.fail(err)
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return names
}

// shipped lists the shipped scenarios in some folders.
func shipped(folders ...string) func(*bench) []string {
	return func(b *bench) (names []string) {
		for _, folder := range folders {
			files, err := filepath.Glob("datasets/scenarios/" + folder + "/*.yaml")
			b.fail(err)
			for _, f := range files {
				names = append(names, folder+"/"+strings.TrimSuffix(filepath.Base(f), ".yaml"))
			}
		}
		return names
	}
}

// compared is the measurement that compares estimates of scenarios with their references. short names one
// scenario.
func compared(short string, long func(*bench) []string, ways ...string) func(context.Context, *bench) {
	return func(ctx context.Context, b *bench) {
		b.compare(ctx, b.sources(b.names([]string{short}, long(b))), ways...)
	}
}

// otherKinds has networks and traffic that differ from the paper's, and some of the paper's scenarios.
func otherKinds(*bench) []string {
	return []string{"mini-star", "mini-mix", "mini-slow-40-2", "a2a-64k-4x", "chain-60", "fasthosts-60",
		"ft8-ws-60", "incast-64k-30", "onefast-60", "sigma3-60", "slowplane-60", "wan-100us",
		"7", "47", "65", "95", "121", "145", "1001", "1003"}
}

// compare prints the errors of several estimates of each scenario: for the slowdown percentiles of all flows,
// for p99 by flow size, and next to the warnings of the estimate.
func (b *bench) compare(ctx context.Context, from []source, ways ...string) {
	b.printf("Errors of p50 / p90 / p99 / p99.9 of slowdown, and of p99 by flow size, %s; – for 1,000 flows "+
		"or fewer. "+
		"Column interval holds states whether the interval of each of these percentiles of all flows contains "+
		"the truth.", strings.Join(sizeBins, " / "))
	head := []string{"scenario", "busiest link", "mean of the top 10%", "published"}
	for _, way := range ways {
		head = append(head, way, "by size", "warnings", "interval holds")
	}
	b.header(head...)
	tallies := make([]tally, len(ways))
	for _, s := range from {
		lake := b.lake()
		cells := []any{s.name, "", "", s.published()}
		for i, way := range ways {
			e := b.run(ctx, lake, append(slices.Clone(s.flags), "--estimator", way)...)
			j := b.judge(ctx, lake, e, s.truth)
			of := b.loads(ctx, lake, e)
			cells[1] = share(of.Largest)
			cells[2] = share(of.Top10)
			shown := j.errors.String()
			if way == "auto" {
				shown = e.Variant + ": " + shown
			}
			cells = append(cells, shown, j.bySize.bins(), strings.Join(j.warnings, ", "), j.marks())
			tallies[i].add(s.name, j)
		}
		b.row(cells...)
	}
	for i, way := range ways {
		tallies[i].print(b, way)
	}
}

// alternate measures several commands alternately, so that other load on the machine affects all of them.
func (b *bench) alternate(rounds int, sides ...func() float64) []figures {
	all := make([]figures, len(sides))
	if b.short {
		rounds = 1
	}
	for range rounds {
		for i, side := range sides {
			all[i].add("", side())
		}
	}
	return all
}

// ratios prints a row of a comparison: medians of both sides and of their ratio, with its range.
func (b *bench) ratios(what, unit string, ours, theirs figures) {
	b.row(what, decimal(ours.median())+unit, decimal(theirs.median())+unit, theirs.over(ours))
}

// benchKernel compares the link kernel with the reference link simulator on the same link cases, alternating.
func benchKernel(ctx context.Context, b *bench) {
	reference := b.sharedPath("tools", "minim-bench")
	cases := b.sharedPath("reference", "links")
	figure := func(text string) float64 { return b.number(text, `ns_per_packet_hop ([\d.]+)`) }
	took := b.alternate(5,
		func() float64 { return figure(b.execute(ctx, nil, reference, cases)) },
		func() float64 { return figure(b.parsimon(ctx, "bench-kernel", "--cases", cases)) })
	b.header("what", "ours", "reference", "ratio")
	b.ratios("link kernel, 64 link cases, one thread, per packet-hop", " ns", took[1], took[0])
}

// benchRun compares a whole estimate with the reference's on the same flows, alternating, with two threads.
// The time of reading the flow file is excluded on both sides.
func benchRun(ctx context.Context, b *bench) {
	reference := b.sharedPath("tools", "ref-run")
	b.header("what", "ours", "reference", "ratio")
	for _, s := range b.sources(b.names([]string{"95"}, []string{"47"})) {
		lake := b.lake()
		b.run(ctx, lake, append(slices.Clone(s.flags), "--estimator", "independent")...)
		list := b.parsimon(ctx, "query", "--lake", lake, "--format", "json", "--sql",
			"SELECT flow_id AS id, src, dst, size_bytes AS size, start_ns AS start FROM flows")
		input := b.file("flows.json", list)
		sides := []func() float64{func() float64 {
			text := b.execute(ctx, []string{"UNPOLAR=1", "RAYON_NUM_THREADS=2"},
				reference, s.flags[1], input, b.tmp+"/out.csv") // the topology
			return b.number(text, `total_without_read ([\d.]+)`)
		}}
		ways := []string{"independent", "flow"}
		for _, way := range ways {
			sides = append(sides, func() float64 {
				e := b.run(ctx, b.lake(), append(slices.Clone(s.flags), "--workers", "2", "--estimator", way)...)
				for _, first := range e.Stages[:min(1, len(e.Stages))] { // it reads the flow file
					e.Seconds -= first.Seconds
				}
				return e.Seconds
			})
		}
		took := b.alternate(3, sides...)
		for i, way := range ways {
			b.ratios(fmt.Sprintf("estimate of scenario %s by `%s`, two threads", s.name, way), " s", took[i+1],
				took[0])
		}
	}
}

// benchExact compares the processor time of two passes of link cases with that of the whole network,
// alternating. The prediction by which a run chooses is fitted to this table (pipeline/auto.go).
func benchExact(ctx context.Context, b *bench) {
	b.printf("Medians of whole runs in processor seconds, cache off. Ratios of each round: median, least, " +
		"greatest.")
	b.header("scenario", "`flow`", "`exact`", "`flow` / `exact`")
	names := []string{"chain-60", "slowplane-60", "ft8-ws-60", "95", "47", "7", "1001", "incast-64k-30"}
	for _, s := range b.sources(b.names([]string{"mini-mix"}, names)) {
		side := func(way string) func() float64 {
			return func() float64 {
				b.run(ctx, b.lake(), append(slices.Clone(s.flags), "--cache", "off", "--estimator", way)...)
				return b.processor.Seconds()
			}
		}
		took := b.alternate(3, side("flow"), side("exact"))
		b.row(s.name, decimal(took[0].median()), decimal(took[1].median()), took[0].over(took[1]))
	}
}
