package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
)

// The paper measurement repeats the evaluation of the paper (NSDI'23) and writes datasets/PAPER.md:
//
//	items ─► draws (paper_draws.go) ─► runs, one file each (resumable) ─► tables, charts ─► PAPER.md, *.svg
//
// An item is one scenario with several kinds of estimates. A run is one estimate of one draw of its workload.
// A run that has been measured with the same version of the method is not measured again, also if another
// machine has measured it (paper_archive.go).

// These are the kinds of estimates of an item, in the order of the tables.
const (
	byIndependent = "independent"
	byClustered   = "independent, clustered"
	byFlow        = "flow"
	byExact       = "exact"
)

// paperWays has the flags of each kind. Results of link cases are not taken from the cache, so that times can
// be compared.
var paperWays = map[string][]string{
	byIndependent: {"--estimator", "independent"},
	byClustered:   {"--estimator", "independent", "--cluster"},
	byFlow:        {"--estimator", "flow"},
	byExact:       {"--estimator", "exact"},
}

var (
	allWays   = []string{byExact, byIndependent, byClustered, byFlow}
	threeWays = []string{byExact, byIndependent, byFlow}
)

// A paperItem is one scenario of the page.
type paperItem struct {
	Section string   `json:"section"`
	Name    string   `json:"name"`
	Args    []string `json:"args"` // of parsimon run; the first is the scenario
	Ways    []string `json:"ways"` // of paperWays
	// Load is the load of the busiest link in the paper's draw. If it is 0, the scenario's max_load counts.
	Load    float64 `json:"load"`
	Service string  `json:"service"` // the service whose flows count; empty: all flows
	Draws   int     `json:"draws"`   // of drawsCount or 1
	// Given: the scenario determines its flows or their length. Draws with files of flows differ in paths only.
	Given bool   `json:"given"`
	Truth string `json:"truth"` // a Parquet file with the FCTs of ns-3; empty: exact is the truth
	Tails bool   `json:"tails"` // keep the tails of the distributions, for a picture
}

func (i paperItem) key() string { return i.Section + "/" + i.Name }

// A paperRun is one estimate of one draw of an item.
type paperRun struct {
	Item      paperItem     `json:"item"`
	Way       string        `json:"way"`
	Seed      uint64        `json:"seed"`
	Length    time.Duration `json:"length_ns"`       // 0 if it is given
	Method    string        `json:"method"`          // the versions of the lake and of the method
	Program   string        `json:"program"`         // with its commit
	MaxLoad   float64       `json:"max_load"`        // of the most loaded link, without headers
	Top10Load float64       `json:"top10_mean_load"` // mean of the most loaded tenth
	Flows     int64         `json:"flows"`
	Estimate  paperEstimate `json:"estimate"`
}

// A paperEstimate is the result of one kind of estimate.
type paperEstimate struct {
	Seconds     float64                `json:"seconds"`
	Processor   float64                `json:"processor_seconds"`
	LongestCase float64                `json:"longest_case_seconds"`
	Cases       int64                  `json:"cases"`
	Sizes       map[string]percentiles `json:"sizes"`           // slowdown, by size bin and "all"
	BinFlows    map[string]int64       `json:"bin_flows"`       // by size bin and "all"
	Services    map[string]percentiles `json:"services"`        // by service
	Errors      map[string]percentiles `json:"errors"`          // relative to ns-3, by size bin; nil without
	Tails       map[string][]float64   `json:"tails,omitempty"` // slowdown at tailQuantiles, by tailGroup
	// Undrawn is the slowdown of all flows if independent does not draw delays (see bench.undrawn). It is nil
	// for other estimates, and outside the 192.
	Undrawn *percentiles `json:"undrawn,omitempty"`
}

// tailQuantiles are the quantiles in pictures of the tail of a distribution.
var tailQuantiles = []float64{
	0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 0.999,
}

// A paperRecord has all runs of an item that has been measured.
type paperRecord struct {
	Item      paperItem
	Form      string
	Draws     paperDraws
	Deviation deviation             // of the true p99 between the draws
	Runs      map[string][]paperRun // by way, in the order of the draws
	Control   *flowControl          // nil if exact has simulated a draw
}

// A paperForm is one of the two forms of the measurement, which differ in the length of workloads.
type paperForm struct {
	name    string
	packets int64 // that all links of a workload are expected to carry
	flows   int64 // the largest number of flows that a workload is expected to have
	items   []paperItem
}

// key is the key of an item's record in this form.
func (f *paperForm) key(item paperItem) string { return f.name + "/" + item.key() }

// A paper measures the items of one form, and stores their runs. The page has the runs of both forms.
type paper struct {
	*bench
	program              string // with its commit
	method               string // its version: runs of another method are measured again
	folder               string // of the runs
	shortForm, wholeForm *paperForm
	records              map[string]*paperRecord    // by key of a form
	verdicts             map[string]map[verdict]int // of the rows of a section that the page has
}

func (p *paper) forms() []*paperForm { return []*paperForm{p.shortForm, p.wholeForm} }

// measured is the form that this call measures.
func (p *paper) measured() *paperForm {
	if p.short {
		return p.shortForm
	}
	return p.wholeForm
}

// repeatPaper measures the runs that are missing, and writes the page.
func repeatPaper(ctx context.Context, b *bench) {
	p := &paper{bench: b, folder: b.recordsOf("paper"), records: map[string]*paperRecord{},
		verdicts: map[string]map[verdict]int{}}
	p.program, p.method = b.version(ctx)
	p.unpack()
	p.plan()
	p.measure(ctx)
	p.control()
	if b.err == nil {
		p.writePage(ctx)
		p.pack()
	}
}

// plan lists the items of both forms. Those that say most in the least time are first. Every item of the
// short form is in the long form, too.
func (p *paper) plan() {
	p.shortForm = &paperForm{name: "short", packets: shortPackets, flows: shortFlows}
	p.wholeForm = &paperForm{name: "whole", packets: wholePackets, flows: wholeFlows}
	scenarios := p.sensitivityItems()
	slice := min(sliceLength, len(scenarios))
	part := scenarios[:min(shortScenarios, len(scenarios))]
	given := p.ns3Items()
	detail := p.detailItems()
	p.shortForm.items = slices.Concat(shortGivenItems(given), part[:slice], p.parkingItems(), detail,
		p.mixItems(), p.failureItems(shortFailures), part[slice:])
	p.wholeForm.items = slices.Concat(given, scenarios[:slice], p.parkingItems(), detail, p.mixItems(),
		p.failureItems(allFailures), scenarios[slice:], p.largeItems())
}

// wanted reports whether the arguments of the command select an item, by section or by section/name.
func (p *paper) wanted(item paperItem) bool {
	return len(p.args) == 0 || slices.Contains(p.args, item.Section) || slices.Contains(p.args, item.key())
}

// measure measures the items of one form in order, until the time has elapsed. Other items, also those of the
// other form, get the records that their stored runs give.
func (p *paper) measure(ctx context.Context) {
	for _, arg := range p.args {
		is := func(i paperItem) bool { return i.Section == arg || i.key() == arg }
		if !slices.ContainsFunc(p.measured().items, is) {
			p.fail(fmt.Errorf("paper: there is no section and no item %q", arg))
		}
	}
	for pass := range passesCount {
		for i, item := range p.measured().items {
			if p.wanted(item) {
				p.measureAndTell(ctx, pass, i)
			}
			if p.err != nil {
				return
			}
		}
	}
	p.until = time.Unix(0, 0)
	for _, form := range p.forms() {
		for _, item := range form.items {
			r, err := p.measureItem(ctx, form, item, 0)
			if p.err != nil {
				return
			}
			if err == nil {
				p.records[form.key(item)] = r
			}
		}
	}
}

// measureAndTell makes the estimates of a pass for an item of the measured form, and prints its progress.
func (p *paper) measureAndTell(ctx context.Context, pass, i int) {
	form := p.measured()
	start := time.Now()
	_, err := p.measureItem(ctx, form, form.items[i], pass)
	state := "measured"
	if err != nil {
		state = err.Error()
	}
	if time.Since(start) > time.Second {
		fmt.Fprintf(os.Stderr, "paper: pass %d of %d, item %d of %d, %s: %s after %.0f s\n", pass+1, passesCount,
			i+1, len(form.items), form.items[i].key(), state, time.Since(start).Seconds())
	}
}

// measureItem makes the estimates of an item that are not stored, and that a pass or an earlier one makes.
// Error errLate means that those of the first pass are incomplete.
func (p *paper) measureItem(ctx context.Context, form *paperForm, item paperItem,
	pass int) (*paperRecord, error) {
	draws, err := p.choose(ctx, form, item)
	if err != nil {
		return nil, err
	}
	r := &paperRecord{Item: item, Form: form.name, Draws: draws, Runs: map[string][]paperRun{}}
	for _, way := range item.Ways {
		for i, seed := range draws.Seeds {
			if i > 0 && !form.ofEveryDraw(item, way) {
				break
			}
			asked := paperRun{Item: item, Way: way, Seed: seed, Length: draws.Length}
			run, stored := p.stored(asked)
			if !stored && form.passOf(item, way) > pass {
				break
			}
			if !stored {
				run, err = p.estimate(ctx, asked)
			}
			if err != nil {
				return nil, err
			}
			r.Runs[way] = append(r.Runs[way], *run)
		}
	}
	var truths []paperEstimate
	truth := byExact
	if form.controlled(item) {
		truth = byFlow // it deviates like exact
	}
	for _, run := range r.Runs[truth] {
		truths = append(truths, run.Estimate)
	}
	if len(truths) > 1 {
		r.Deviation = truthDeviation(truths, item.Service)
	}
	return r, nil
}

// runFile returns the file of a run. Its name begins with the section and the name of the item.
func (p *paper) runFile(r paperRun) string {
	name := strings.ReplaceAll(r.Item.Section+"-"+r.Item.Name, "/", "-")
	way := strings.ReplaceAll(r.Way, ", ", "-")
	return filepath.Join(p.folder, fmt.Sprintf("%s-%v-%d-%s.json", name, r.Length, r.Seed, way))
}

// stored returns the stored run of an item, way, seed and length, if there is one.
func (p *paper) stored(asked paperRun) (*paperRun, bool) {
	asked.Item.Ways = nil // a run does not depend on the other runs of its item
	asked.Item.Draws = 0
	r := &paperRun{}
	found := p.readStored(p.runFile(asked), r)
	return r, found && r.Method == p.method && reflect.DeepEqual(r.Item, asked.Item)
}

// estimate returns a run: the stored one, or one that it makes in a new lake. asked has the item, the way,
// the seed and the length.
func (p *paper) estimate(ctx context.Context, asked paperRun) (*paperRun, error) {
	r, stored := p.stored(asked)
	if stored {
		return r, nil
	}
	asked.Item.Ways = nil
	asked.Item.Draws = 0
	if p.late() {
		return nil, errLate
	}
	start := time.Now()
	*r = asked
	r.Method = p.method
	r.Program = p.program
	args := slices.Concat(r.Item.Args, paperWays[r.Way], []string{"--cache", "off"})
	args = append(args, "--seed", fmt.Sprint(r.Seed))
	if !r.Item.Given {
		args = append(args, "--duration", r.Length.String())
	}
	lake := p.lake()
	e := p.run(ctx, lake, args...)
	r.Estimate = p.estimateOf(ctx, lake, e, r.Item)
	r.Flows = e.Flows
	loads := p.loads(ctx, lake, e)
	r.MaxLoad = loads.Largest
	r.Top10Load = loads.Top10
	p.store(p.runFile(asked), r)
	if p.err == nil {
		fmt.Fprintf(os.Stderr, "paper: %s, %v, seed %d, %s: %.0f s, %.0f s of a core\n", r.Item.key(), r.Length,
			r.Seed, r.Way, time.Since(start).Seconds(), r.Estimate.Processor)
	}
	return r, p.err
}

// estimateOf returns the values of an estimate that the page needs.
func (p *paper) estimateOf(ctx context.Context, lake string, e estimate, item paperItem) paperEstimate {
	of := paperEstimate{
		Seconds:     e.Seconds,
		Processor:   p.processor.Seconds(),
		LongestCase: float64(e.LinkCases.LongestCaseNS) / 1e9,
		Cases:       e.LinkCases.Cases,
		Sizes:       map[string]percentiles{},
		BinFlows:    map[string]int64{},
		Services:    map[string]percentiles{},
	}
	for _, row := range e.Percentiles {
		of.Sizes[row.SizeBin] = row.percentiles()
		of.BinFlows[row.SizeBin] = row.Flows
	}
	for _, row := range e.Services {
		of.Services[row.Service] = row.percentiles()
	}
	if item.Truth != "" {
		of.Errors = map[string]percentiles{}
		for bin, v := range p.validate(ctx, lake, e, item.Truth) {
			of.Errors[bin] = v.errors
		}
	}
	if e.Variant == byIndependent && item.Section == "192" {
		undrawn := p.undrawn(ctx, lake, e)
		of.Undrawn = &undrawn
	}
	if item.Tails {
		of.Tails = p.tails(ctx, lake, e, item)
	}
	if item.Section == "transports" {
		of.Sizes[middleBin] = p.middle(ctx, lake, e)
	}
	return of
}

// middle returns the percentiles of the flows of middleBin.
func (p *paper) middle(ctx context.Context, lake string, e estimate) (of percentiles) {
	for _, row := range query[struct{ Slowdowns percentiles }](ctx, p.bench, lake, `
		SELECT quantile_cont(slowdown, [0.5, 0.9, 0.99, 0.999]) AS slowdowns FROM slowdowns_all
		WHERE `+e.where()+` AND size_bytes >= 10_000 AND size_bytes < 1_000_000`) {
		of = row.Slowdowns
	}
	return of
}

// tailGroup names the flows of a size bin and, in a mix of workloads, of a service.
func tailGroup(service, bin string) string { return strings.TrimPrefix(service+": "+bin, ": ") }

// tails returns the slowdowns at tailQuantiles by tailGroup, of the flows of the item's service.
func (p *paper) tails(ctx context.Context, lake string, e estimate, item paperItem) map[string][]float64 {
	quantiles := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(tailQuantiles)), ", "), "[]")
	where := e.where()
	if item.Service != "" {
		where += fmt.Sprintf(" AND service = '%s'", item.Service)
	}
	service := "''"
	if item.Section == "mix" {
		service = "service"
	}
	tails := map[string][]float64{}
	for _, row := range query[struct {
		Service string
		SizeBin string `json:"size_bin"`
		Tail    []float64
	}](ctx, p.bench, lake, fmt.Sprintf(`
		SELECT service, coalesce(bin, 'all') AS size_bin, quantile_cont(slowdown, [%s]) AS tail
		FROM (SELECT slowdown, %s AS service, CASE WHEN size_bytes < 10_000 THEN '<10 KB'
			WHEN size_bytes < 100_000 THEN '10-100 KB' WHEN size_bytes < 1_000_000 THEN '100 KB-1 MB'
			ELSE '>1 MB' END AS bin
			FROM slowdowns_all WHERE %s)
		GROUP BY GROUPING SETS ((service, bin), (service))`, quantiles, service, where)) {
		tails[tailGroup(row.Service, row.SizeBin)] = row.Tail
	}
	return tails
}
