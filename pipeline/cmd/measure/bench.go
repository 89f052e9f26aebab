package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A bench has everything that measurements share: the settings of the command line, a temporary directory,
// and the output.
type bench struct {
	program, shared string
	before          string // an earlier build of the program; "": none
	short, write    bool
	args            []string
	records         string    // folder of what is measured already
	until           time.Time // no run begins later; zero: no limit
	minutes         float64   // after which no run begins; negative: no limit
	missing         []string  // sections that the paper omits without the shared folder

	tmp  string
	out  strings.Builder // the Markdown that was printed
	cost                 // of the last program
	err  error
}

// A cost is what one run of a program took.
type cost struct {
	processor time.Duration // user and system
	elapsed   time.Duration
	peakBytes int64 // peak resident memory
}

// provenance returns the commit, the date and the machine of a measurement.
func (b *bench) provenance(ctx context.Context) string {
	commit := b.execute(ctx, nil, "git", "describe", "--always", "--dirty", "--exclude=*")
	return fmt.Sprintf("Measured at commit `%s` on %s, %s.", strings.TrimSpace(commit),
		time.Now().UTC().Format(time.DateOnly), machine())
}

// machine returns the number of cores and the model of the processor.
func machine() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // absent on other systems
	processor := runtime.GOARCH
	found := regexp.MustCompile(`(?m)^model name\s*: (.+)$`).FindSubmatch(info)
	if found != nil {
		processor = string(found[1])
	}
	return fmt.Sprintf("%d cores (%s)", runtime.NumCPU(), processor)
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
	path := filepath.Join(append([]string{b.shared}, elem...)...)
	if _, err := os.Stat(path); err != nil {
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a script's programs end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	start := time.Now()
	if err := cmd.Run(); err != nil {
		b.fail(fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, log.String()))
		return ""
	}
	b.cost = cost{
		processor: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
		elapsed:   time.Since(start),
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if ok {
		b.peakBytes = used.Maxrss << 10 // kilobytes on Linux
	}
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
	Stages      []stageCost
	Percentiles []slowdowns
	Services    []slowdowns
	LinkCases   struct {
		Cases         int64
		PacketHops    int64 `json:"packet_hops"`
		KernelNS      int64 `json:"kernel_ns"`
		LongestCaseNS int64 `json:"longest_case_ns"`
	} `json:"link_cases"`
	WholeHops int64 `json:"whole_network_packet_hops"` // packet-hops of estimator exact
}

// A stageCost is the cost of one stage of a run.
type stageCost struct {
	Stage      string
	Seconds    float64
	CPUSeconds float64 `json:"cpu_seconds"`
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
