package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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

// drawn returns a scenario file that redraws one of the paper's scenarios. The length is given by --duration.
func (p *paper) drawn(s publishedScenario) string {
	ratio := strings.TrimSuffix(s.oversub, "-to-1")
	topology := p.fromFolder("reference", "topologies", "cluster_"+ratio+"_to_1.json")
	matrix := p.fromFolder("reference", "matrices", "cluster_"+strings.ToLower(s.matrix)+"_2_16.json")
	sizes := p.fromFolder("reference", "sizes", strings.ToLower(s.sizes)+"-all.txt")
	return p.keep(fmt.Sprintf("paper-%03d", s.id), fmt.Sprintf(`name: paper-%03d
seed: %d
topology: {file: %s}
workload:
  max_load: %v
  duration: 1s
  services:
    - {name: main, matrix: %s, sizes: %s, sigma: %v}
transport: {window: 18KB}
`, s.id, seedsCount*s.id+1, topology, s.asked, matrix, sizes, s.sigma))
}

// fromFolder returns a path below the shared folder, relative to the folder of runs, for a scenario file in
// that folder. An absolute one would give the file, and so its runs, another name on another machine.
func (p *paper) fromFolder(elem ...string) string {
	path, err := filepath.Abs(p.sharedPath(elem...))
	p.fail(err)
	folder, err := filepath.Abs(p.folder)
	p.fail(err)
	relative, err := filepath.Rel(folder, path)
	p.fail(err)
	return relative
}

// keep writes a scenario file beside the records. Its name depends on its content, so that a record belongs
// to one content even if the measurement is continued later.
func (p *paper) keep(name, content string) string {
	digest := sha256.Sum256([]byte(content))
	path := filepath.Join(p.folder, fmt.Sprintf("%s-%x.yaml", name, digest[:4]))
	p.fail(os.WriteFile(path, []byte(content), 0o644))
	return path
}

// These constants divide the items into a first part, the short form and the rest.
const (
	sliceLength    = 18 // of the 192 scenarios are measured first, two of each stratum
	shortScenarios = 64 // of the 192 scenarios belong to the short form
	shortGiven     = 2  // of the scenarios that ns-3 has simulated have all estimates in the short form
	shortFailures  = 2
	allFailures    = 10
)

// sensitivityItems are the paper's 192 scenarios, redrawn. They alternate between nine strata, three ranges
// of load by three oversubscriptions, so that the first n are a stratified sample. Within a stratum they are
// in the order of their ids, which is random, because the paper drew its scenarios at random.
func (p *paper) sensitivityItems() (items []paperItem) {
	if !p.hasShared("the 192 scenarios") {
		return nil
	}
	for i, s := range alternating(p.published()) {
		draws := 1
		if i%repeatedEach == 0 {
			draws = drawsCount
		}
		items = append(items, paperItem{Section: "192", Name: fmt.Sprintf("%03d", s.id), Args: []string{p.drawn(s)},
			Ways: allWays, Draws: draws, Load: s.load})
	}
	return items
}

// alternating sorts scenarios so that strata alternate.
func alternating(all []publishedScenario) []publishedScenario {
	place := map[int]int{} // by id: how many of its stratum are before it
	count := map[string]int{}
	for _, s := range all {
		place[s.id] = count[s.stratum()]
		count[s.stratum()]++
	}
	return slices.SortedStableFunc(slices.Values(all), func(a, b publishedScenario) int {
		return cmp.Or(cmp.Compare(place[a.id], place[b.id]), strings.Compare(a.stratum(), b.stratum()))
	})
}

func (s publishedScenario) stratum() string { return loadRange(s.asked) + s.oversub }

// detailID is the scenario that the paper describes in detail, with its flow sizes. Its error is the 85th
// percentile of all.
const (
	detailID    = 25
	detailSizes = "Hadoop"
)

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
			Draws: drawsCount, Load: s.load, Tails: true})
		for _, load := range []float64{0.45, 0.56, 0.67} {
			s.asked = load
			for _, transport := range []string{"dctcp", "timely", "dcqcn"} {
				args := []string{p.drawn(s), "--transport", transport}
				items = append(items, paperItem{Section: "transports", Name: fmt.Sprintf("%s-%.0f", transport, 100*load),
					Args: args, Ways: threeWays, Draws: drawsCount})
			}
		}
	}
	return items
}

// shortGivenItems are the items of the short form with given flows. Most have only the estimate that the
// published code has, too.
func shortGivenItems(given []paperItem) (items []paperItem) {
	for _, item := range given {
		if slices.Contains(item.Args, "--transport") {
			continue
		}
		if len(items) >= shortGiven {
			item.Ways = []string{byIndependent}
		}
		items = append(items, item)
	}
	return items
}

// ns3Items are the scenarios for which the shared folder has FCTs of the paper's ns-3.
func (p *paper) ns3Items() (items []paperItem) {
	if !p.hasShared("the paper's ns-3") {
		return nil
	}
	for i, s := range p.sources(p.groundTruths()) {
		item := paperItem{Section: "ns3", Name: s.name, Args: s.flags, Ways: allWays, Draws: 1, Truth: s.truth,
			Given: true}
		if i%givenEach == 0 {
			item.Draws = drawsCount
		}
		items = append(items, item)
		for _, transport := range []string{"timely", "dcqcn"} {
			truth := filepath.Join(filepath.Dir(s.truth), "ns3_"+transport+".parquet")
			if _, err := os.Stat(truth); err == nil {
				args := append(slices.Clone(s.flags), "--transport", transport)
				items = append(items, paperItem{Section: "ns3", Name: s.name + "-" + transport, Args: args,
					Ways: threeWays, Draws: 1, Truth: truth, Given: true})
			}
		}
	}
	return items
}

// parkingItems are the microbenchmarks of the appendix.
func (p *paper) parkingItems() (items []paperItem) {
	for _, name := range []string{"short", "first-hop", "short-correlated", "long", "long-correlated",
		"long-bursty", "long-bursty-correlated"} {
		items = append(items, paperItem{Section: "parking", Name: name, Args: []string{"parking-lot/" + name},
			Ways: threeWays, Draws: drawsCount, Service: "main", Tails: true})
	}
	return items
}

// failureItems are the scenario of the failures without a failed cable, and with one failed cable from each
// of n draws.
func (p *paper) failureItems(n int) []paperItem {
	items := []paperItem{{Section: "failures", Name: "none", Args: []string{"failures"}, Ways: threeWays,
		Draws: drawsCount, Tails: true}}
	draw := rand.New(rand.NewPCG(1, 1))
	for range n {
		cable := draw.IntN(64 + 32)
		ends := fmt.Sprintf("pod%d-tor%d:pod%[1]d-fabric%[3]d", cable/32, cable%32/2, cable%2)
		if cable >= 64 { // from a fabric switch to one of the eight spines of its plane
			ends = fmt.Sprintf("pod%d-fabric%d:plane%[2]d-spine%[3]d", (cable-64)/16, (cable-64)/8%2, cable%8)
		}
		items = append(items, paperItem{Section: "failures", Name: strings.ReplaceAll(ends, ":", "~"),
			Args: []string{"failures", "--fail", ends}, Ways: threeWays, Draws: drawsCount, Tails: true})
	}
	return items
}

func (p *paper) mixItems() []paperItem {
	return []paperItem{{Section: "mix", Name: "mixed", Args: []string{"mixed"}, Ways: threeWays,
		Draws: drawsCount, Tails: true}}
}

// largeItems have 6,144 hosts. The first has the length that the rule gives and the truth. The other has the
// paper's five seconds and no truth, for the times.
func (p *paper) largeItems() []paperItem {
	return []paperItem{
		{Section: "large", Name: "truth", Args: []string{"large"}, Ways: allWays, Draws: drawsCount, Tails: true},
		{Section: "large", Name: "5s", Args: []string{"large"}, Ways: []string{byIndependent, byClustered, byFlow},
			Draws: 1, Given: true},
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
