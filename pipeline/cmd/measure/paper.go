package main

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"parsimon/stages/workload"
)

// The paper measurement repeats the evaluation of the paper (NSDI'23) and writes datasets/PAPER.md:
//
//	items ─► records, one file each (resumable) ─► tables and Vega-Lite charts ─► PAPER.md, paper/*.svg
//
// An item is one scenario with several estimates. A result that the same program has measured for the same
// scenario is not measured again.

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
	Args    []string `json:"args"`  // of parsimon run
	Ways    []string `json:"ways"`  // of paperWays
	Truth   string   `json:"truth"` // a Parquet file with the FCTs of ns-3; empty: exact is the truth
	Tails   bool     `json:"tails"` // keep the tails of the distributions, for a picture
}

// A paperRecord has the results of an item.
type paperRecord struct {
	Item      paperItem                `json:"item"`
	Program   string                   `json:"program"`
	MaxLoad   float64                  `json:"max_load"`        // of the most loaded link, without headers
	Top10Load float64                  `json:"top10_mean_load"` // mean of the most loaded tenth
	Flows     int64                    `json:"flows"`
	Estimates map[string]paperEstimate `json:"estimates"` // by way
}

// A paperEstimate is the result of one kind of estimate.
type paperEstimate struct {
	Seconds     float64                `json:"seconds"`
	Processor   float64                `json:"processor_seconds"`
	LongestCase float64                `json:"longest_case_seconds"`
	Cases       int64                  `json:"cases"`
	Sizes       map[string]percentiles `json:"sizes"`           // slowdown, by size bin and "all"
	Services    map[string]percentiles `json:"services"`        // by service
	Errors      map[string]percentiles `json:"errors"`          // relative to ns-3, by size bin; nil without
	Tails       map[string][]float64   `json:"tails,omitempty"` // slowdown at tailQuantiles, by size bin
}

// tailQuantiles are the quantiles in pictures of the tail of a distribution.
var tailQuantiles = []float64{
	0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 0.999,
}

// A paper measures the items and stores their records.
type paper struct {
	*bench
	program string // its version: records of another program are measured again
	folder  string // of the records
	items   []paperItem
	records map[string]*paperRecord // by section/name
}

// repeatPaper measures the items without results, and writes the page.
func repeatPaper(ctx context.Context, b *bench) {
	p := &paper{bench: b, records: map[string]*paperRecord{}}
	p.program = strings.Split(b.parsimon(ctx, "version"), "\n")[0]
	p.folder = filepath.Join(b.records, "whole")
	if b.short {
		p.folder = filepath.Join(b.records, "short")
	}
	b.fail(os.MkdirAll(p.folder, 0o755))
	p.plan()
	p.measure(ctx)
	if b.err == nil {
		p.writePage(ctx)
	}
}

// plan lists the items. The most important ones are first, because the short form ends before all are
// measured.
func (p *paper) plan() {
	sensitivity := p.sensitivityItems()
	parking := p.parkingItems()
	third := (len(sensitivity) + 2) / 3
	if p.short {
		p.items = append(p.items, parking...)
		p.items = append(p.items, sensitivity[:third]...)
		p.items = append(p.items, p.detailItems()...)
		p.items = append(p.items, p.ns3Items("95", "169")...)
		p.items = append(p.items, p.failureItems(2)...)
		p.items = append(p.items, p.mixItems()...)
		return
	}
	p.items = append(p.items, parking...)
	p.items = append(p.items, p.ns3Items()...)
	p.items = append(p.items, p.detailItems()...)
	p.items = append(p.items, p.mixItems()...)
	p.items = append(p.items, sensitivity...)
	p.items = append(p.items, p.failureItems(10)...)
	p.items = append(p.items, p.largeItems()...)
}

// measure measures the items in order, until the time has elapsed.
func (p *paper) measure(ctx context.Context) {
	began := time.Now()
	measured := 0
	for i, item := range p.items {
		key := item.Section + "/" + item.Name
		stored := p.stored(item)
		if stored != nil {
			p.records[key] = stored
			continue
		}
		if p.minutes > 0 && time.Since(began).Minutes() > p.minutes {
			continue
		}
		start := time.Now()
		r := p.estimateItem(ctx, item)
		if p.err != nil {
			return
		}
		p.records[key] = r
		p.store(r)
		measured++
		left := time.Since(began) / time.Duration(measured) * time.Duration(len(p.items)-i-1)
		fmt.Fprintf(os.Stderr, "paper: %d of %d items, %s in %.0f s, about %v left\n", i+1, len(p.items), key,
			time.Since(start).Seconds(), left.Round(time.Minute))
	}
}

func (p *paper) recordFile(item paperItem) string {
	return filepath.Join(p.folder, item.Section+"-"+strings.ReplaceAll(item.Name, "/", "-")+".json")
}

// stored returns the record of an item that was measured before, or nil.
func (p *paper) stored(item paperItem) *paperRecord {
	data, err := os.ReadFile(p.recordFile(item))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r := &paperRecord{}
	if err == nil {
		err = json.Unmarshal(data, r)
	}
	p.fail(err)
	if r.Program != p.program || !reflect.DeepEqual(r.Item, item) {
		return nil
	}
	return r
}

// store writes a record atomically.
func (p *paper) store(r *paperRecord) {
	data, err := json.MarshalIndent(r, "", " ")
	p.fail(err)
	file := p.recordFile(r.Item)
	p.fail(os.WriteFile(file+".new", data, 0o644))
	p.fail(os.Rename(file+".new", file))
}

// estimateItem makes all estimates of one scenario, in a separate lake.
func (p *paper) estimateItem(ctx context.Context, item paperItem) *paperRecord {
	r := &paperRecord{Item: item, Program: p.program, Estimates: map[string]paperEstimate{}}
	lake := p.lake()
	for _, way := range item.Ways {
		args := append(append([]string{}, item.Args...), paperWays[way]...)
		e := p.run(ctx, lake, append(args, "--cache", "off")...)
		r.Estimates[way] = p.estimateOf(ctx, lake, e, item)
		r.Flows = e.Flows
		if r.MaxLoad == 0 { // the loads of all ways are the same
			loads := p.loads(ctx, lake, e)
			r.MaxLoad = loads.Largest
			r.Top10Load = loads.Top10
		}
	}
	return r
}

// estimateOf returns the values of an estimate that the page needs.
func (p *paper) estimateOf(ctx context.Context, lake string, e estimate, item paperItem) paperEstimate {
	of := paperEstimate{
		Seconds:     e.Seconds,
		Processor:   p.processor.Seconds(),
		LongestCase: float64(e.LinkCases.LongestCaseNS) / 1e9,
		Cases:       e.LinkCases.Cases,
		Sizes:       map[string]percentiles{},
		Services:    map[string]percentiles{},
	}
	for _, row := range e.Percentiles {
		of.Sizes[row.SizeBin] = row.percentiles()
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
	if item.Tails {
		of.Tails = p.tails(ctx, lake, e, item)
	}
	return of
}

// tails returns the slowdowns at tailQuantiles by size bin. If there is a service main, it returns those of
// main.
func (p *paper) tails(ctx context.Context, lake string, e estimate, item paperItem) map[string][]float64 {
	quantiles := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(tailQuantiles)), ", "), "[]")
	where := e.where()
	if item.Section == "parking" {
		where += " AND service = 'main'"
	}
	tails := map[string][]float64{}
	for _, row := range query[struct {
		SizeBin string `json:"size_bin"`
		Tail    []float64
	}](ctx, p.bench, lake, fmt.Sprintf(`
		SELECT coalesce(bin, 'all') AS size_bin, quantile_cont(slowdown, [%s]) AS tail
		FROM (SELECT slowdown, CASE WHEN size_bytes < 10_000 THEN '<10 KB'
			WHEN size_bytes < 100_000 THEN '10-100 KB' WHEN size_bytes < 1_000_000 THEN '100 KB-1 MB'
			ELSE '>1 MB' END AS bin
			FROM slowdowns_all WHERE %s)
		GROUP BY GROUPING SETS ((bin), ())`, quantiles, where)) {
		tails[row.SizeBin] = row.Tail
	}
	return tails
}

// A publishedScenario is one of the paper's 192 scenarios, with its errors in the paper.
type publishedScenario struct {
	id                          int
	matrix, sizes, oversub      string
	sigma, asked, load, topLoad float64
	independent, clustered      float64 // errors of p99 relative to ns-3
}

// published returns the paper's errors, by id.
func (b *bench) published() []publishedScenario {
	file, err := os.Open(b.sharedPath("reference", "published", "sensitivity.csv"))
	if err != nil {
		b.fail(err)
		return nil
	}
	defer func() { _ = file.Close() }() // read only
	rows, err := csv.NewReader(file).ReadAll()
	b.fail(err)
	var all []publishedScenario
	for _, row := range rows[min(1, len(rows)):] {
		all = append(all, publishedScenario{
			id:          int(b.parse(row[0])),
			matrix:      strings.TrimPrefix(row[1], "Matrix "),
			sizes:       row[2],
			sigma:       b.parse(row[3]),
			asked:       b.parse(row[4]),
			load:        b.parse(row[5]),
			topLoad:     b.parse(row[6]),
			oversub:     row[7],
			independent: b.parse(row[9]),
			clustered:   b.parse(row[11]),
		})
	}
	return all
}

// The bytes of a drawn scenario: 30 million packets in the short form, 150 million in the whole one. The
// paper's scenarios of several seconds have about 300 million. Much shorter ones have other errors: on
// scenario 0, independent is off by +86% with 6 million packets and by +19% with 12 million, while the
// paper's error is +8%.
const (
	shortBytes = 30e9
	wholeBytes = 150e9
)

// drawn returns a scenario file that redraws one of the paper's scenarios.
func (p *paper) drawn(s publishedScenario) string {
	ratio := map[string]string{"1-to-1": "1", "2-to-1": "2", "4-to-1": "4"}[s.oversub]
	topology := p.sharedPath("reference", "topologies", "cluster_"+ratio+"_to_1.json")
	matrix := p.sharedPath("reference", "matrices", "cluster_"+strings.ToLower(s.matrix)+"_2_16.json")
	sizes := p.sharedPath("reference", "sizes", strings.ToLower(s.sizes)+"-all.txt")
	cdf, err := workload.ReadSizeCDF(sizes)
	if err != nil {
		p.fail(err)
		return ""
	}
	bytes := wholeBytes
	if p.short {
		bytes = shortBytes
	}
	return p.keep(fmt.Sprintf("paper-%03d", s.id), fmt.Sprintf(`name: paper-%03d
seed: %d
topology: {file: %s}
workload:
  max_load: %v
  flows_count: %d
  services:
    - {name: main, matrix: %s, sizes: %s, sigma: %v}
transport: {window: 18KB}
`, s.id, s.id+1, topology, s.asked, int(bytes/cdf.Mean()), matrix, sizes, s.sigma))
}

// keep writes a scenario file beside the records. Its name depends on its content, so that a record belongs
// to one content even if the measurement is continued later.
func (p *paper) keep(name, content string) string {
	digest := sha256.Sum256([]byte(content))
	path := filepath.Join(p.folder, fmt.Sprintf("%s-%x.yaml", name, digest[:4]))
	p.fail(os.WriteFile(path, []byte(content), 0o644))
	return path
}

// sensitivityItems are the paper's 192 scenarios, redrawn. The first n are a random sample, because the paper
// drew its scenarios at random.
func (p *paper) sensitivityItems() (items []paperItem) {
	if !p.hasShared("the 192 scenarios") {
		return nil
	}
	for _, s := range p.published() {
		items = append(items, paperItem{Section: "192", Name: fmt.Sprintf("%03d", s.id), Args: []string{p.drawn(s)},
			Ways: allWays})
	}
	return items
}

// detailID is the scenario that the paper describes in detail: its error is the 85th percentile of all.
const detailID = 25

// detailItems are this scenario with three transports at three loads.
func (p *paper) detailItems() (items []paperItem) {
	if !p.hasShared("one scenario in detail") {
		return nil
	}
	for _, s := range p.published() {
		if s.id != detailID {
			continue
		}
		items = append(items, paperItem{Section: "detail", Name: "dctcp", Args: []string{p.drawn(s)}, Ways: allWays,
			Tails: true})
		for _, load := range []float64{0.45, 0.56, 0.67} {
			for _, transport := range []string{"dctcp", "timely", "dcqcn"} {
				s.asked = load
				args := []string{p.drawn(s), "--transport", transport}
				items = append(items, paperItem{Section: "transports", Name: fmt.Sprintf("%s-%.0f", transport, 100*load),
					Args: args, Ways: threeWays})
			}
		}
	}
	return items
}

// ns3Items are the scenarios for which the shared folder has FCTs of the paper's ns-3. Without names, these
// are all such scenarios.
func (p *paper) ns3Items(names ...string) (items []paperItem) {
	if !p.hasShared("the paper's ns-3") {
		return nil
	}
	if names == nil {
		names = p.groundTruths()
	}
	for _, s := range p.sources(names) {
		dir := filepath.Dir(s.truth)
		items = append(items, paperItem{Section: "ns3", Name: s.name, Args: s.flags, Ways: allWays, Truth: s.truth})
		for _, transport := range []string{"timely", "dcqcn"} {
			truth := filepath.Join(dir, "ns3_"+transport+".parquet")
			if _, err := os.Stat(truth); err == nil {
				args := append(append([]string{}, s.flags...), "--transport", transport)
				items = append(items, paperItem{Section: "ns3", Name: s.name + "-" + transport, Args: args,
					Ways: threeWays, Truth: truth})
			}
		}
	}
	return items
}

// parkingItems are the microbenchmarks of the appendix.
func (p *paper) parkingItems() (items []paperItem) {
	for _, name := range []string{"short", "first-hop", "short-correlated", "long", "long-correlated",
		"long-bursty", "long-bursty-correlated"} {
		args := []string{"parking-lot/" + name}
		if p.short && strings.HasPrefix(name, "long") {
			args = append(args, "--duration", "1s")
		}
		items = append(items, paperItem{Section: "parking", Name: name, Args: args, Ways: threeWays, Tails: true})
	}
	return items
}

// failureItems are the scenario of the failures without a failed cable, and with one failed cable from each
// of n draws.
func (p *paper) failureItems(n int) []paperItem {
	items := []paperItem{{Section: "failures", Name: "none", Args: []string{"failures"}, Ways: threeWays}}
	draw := rand.New(rand.NewPCG(1, 1))
	for range n {
		cable := draw.IntN(64 + 32)
		ends := fmt.Sprintf("pod%d-tor%d:pod%[1]d-fabric%[3]d", cable/32, cable%32/2, cable%2)
		if cable >= 64 { // from a fabric switch to one of the eight spines of its plane
			ends = fmt.Sprintf("pod%d-fabric%d:plane%[2]d-spine%[3]d", (cable-64)/16, (cable-64)/8%2, cable%8)
		}
		items = append(items, paperItem{Section: "failures", Name: strings.ReplaceAll(ends, ":", "~"),
			Args: []string{"failures", "--fail", ends}, Ways: threeWays})
	}
	return items
}

func (p *paper) mixItems() []paperItem {
	return []paperItem{{Section: "mix", Name: "mixed", Args: []string{"mixed"}, Ways: threeWays}}
}

// largeItems have 6,144 hosts: one second with exact, and the paper's five seconds without it.
func (p *paper) largeItems() []paperItem {
	return []paperItem{
		{Section: "large", Name: "1s", Args: []string{"large", "--duration", "1s"}, Ways: allWays, Tails: true},
		{Section: "large", Name: "5s", Args: []string{"large"}, Ways: []string{byIndependent, byClustered, byFlow}},
	}
}

// hasShared reports whether the shared folder exists. If not, it prints what is omitted.
func (p *paper) hasShared(what string) bool {
	if _, err := os.Stat(p.shared); err == nil {
		return true
	}
	p.missing = append(p.missing, what)
	return false
}
