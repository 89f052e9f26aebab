package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline/scenario"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// This file has the rule for workloads. It is the same for all items. It looks only at the scenario and at
// the load of the drawn flows, never at the truth or at an estimate:
//
//   - All links together are expected to carry a number of packets of 1,000 B, in at most 16 s. The workload
//     ends sooner if a number of flows is expected sooner, because small flows cost time, too.
//   - The draws are those of the first 16 seeds whose busiest links have the loads closest to the paper's.
//   - An item has three draws. Of the 192 scenarios every eighth has three, and of those that ns-3 has
//     simulated every fourth. The others have one.
const (
	wholePackets = 800_000_000 // on all links
	shortPackets = 50_000_000  // with --short
	wholeFlows   = 4_000_000
	shortFlows   = 250_000
	packetBytes  = 1000 // of each packet that is counted
	longest      = 16 * time.Second
	seedsCount   = 16
	drawsCount   = 3
	repeatedEach = 8 // of the 192 scenarios
	givenEach    = 4 // of the scenarios that ns-3 has simulated

	loadTolerance = 0.1  // a load that differs by more from the paper's is a reason for another error
	leastBinShare = 0.01 // of the flows, for the deviation of the truth of a size bin
)

// A paperDraws is the choice of the draws of an item.
type paperDraws struct {
	Item   paperItem     `json:"item"`
	Method string        `json:"method"`
	Length time.Duration `json:"length_ns"`
	Seeds  []uint64      `json:"seeds"` // of the draws
	Loads  []float64     `json:"loads"` // of the busiest links of all seeds that were tried
}

// A deviation is the largest standard deviation of p99 of a group of flows, relative to its mean.
type deviation struct {
	share float64
	group string // size bin or service
}

// choose returns the draws of an item. The choice is stored, because drawing takes time, too.
func (p *paper) choose(ctx context.Context, form *paperForm, item paperItem) (d paperDraws, err error) {
	if item.Given {
		d.Item = item
		for seed := range uint64(item.Draws) {
			d.Seeds = append(d.Seeds, seed+1)
		}
		return d, nil
	}
	name := strings.ReplaceAll(item.Section+"-"+item.Name, "/", "-")
	file := filepath.Join(p.folder, fmt.Sprintf("%s-%dM-draws.json", name, form.packets/1_000_000))
	if p.readStored(file, &d) && d.Method == p.method && reflect.DeepEqual(d.Item, item) {
		return d, nil
	}
	if p.late() {
		return d, errLate
	}
	d, err = drawItem(ctx, item, form)
	if err != nil {
		p.fail(fmt.Errorf("%s: %w", item.key(), err))
		return d, p.err
	}
	d.Method = p.method
	p.store(file, d)
	return d, p.err
}

// drawItem draws the flows of each seed, and chooses the seeds whose loads are closest to the paper's.
func drawItem(ctx context.Context, item paperItem, form *paperForm) (d paperDraws, err error) {
	s, err := scenario.Load(item.Args[0])
	if err != nil {
		return d, err
	}
	length, err := lengthOf(ctx, s, form)
	if err != nil {
		return d, err
	}
	d = paperDraws{Item: item, Length: length}
	want := item.Load
	if want == 0 {
		want = s.MaxLoad()
	}
	distances := map[uint64]float64{} // by seed
	first := s.Seed
	for seed := first; seed < first+seedsCount; seed++ {
		err := s.SetAll([]scenario.Setting{
			{Key: "seed", Value: fmt.Sprint(seed)},
			{Key: "workload.duration", Value: length.String()},
		})
		if err != nil {
			return d, err
		}
		l, err := drawLoads(ctx, s)
		if err != nil {
			return d, err
		}
		d.Loads = append(d.Loads, l.payload)
		d.Seeds = append(d.Seeds, seed)
		distances[seed] = abs(l.payload/want - 1)
	}
	slices.SortStableFunc(d.Seeds, func(a, b uint64) int { return cmp.Compare(distances[a], distances[b]) })
	d.Seeds = d.Seeds[:item.Draws]
	return d, nil
}

// lengthOf returns the time in which the links of a scenario are expected to carry the packets of a form. It
// is shorter if the flows of the form are expected sooner.
func lengthOf(ctx context.Context, s *scenario.Scenario, form *paperForm) (time.Duration, error) {
	n, err := s.IntactNetwork()
	if err != nil {
		return 0, err
	}
	w, err := s.Workload(n)
	if err != nil {
		return 0, err
	}
	if w.MaxLoad == 0 {
		return 0, errors.New("the scenario asks for no load")
	}
	router, err := topology.NewRouter(ctx, n, s.Seed)
	if err != nil {
		return 0, err
	}
	plan, err := workload.NewPlan(router, w)
	if err != nil {
		return 0, err
	}
	var packetsPerSecond, flowsPerSecond float64
	for id, link := range n.Links {
		packetsPerSecond += plan.LinkLoad[id] * float64(link.BandwidthBps) / 8 / packetBytes
	}
	for _, rate := range plan.ServiceFlowsPerSecond {
		flowsPerSecond += rate
	}
	seconds := min(longest.Seconds(), float64(form.packets)/packetsPerSecond,
		float64(form.flows)/flowsPerSecond)
	length := time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
	return max(time.Millisecond, length), nil
}

// truthDeviation returns the largest deviation of the true p99 between draws: of a service or, if it is
// empty, of each size bin that has enough flows in every draw.
func truthDeviation(truths []paperEstimate, service string) (worst deviation) {
	if service != "" {
		return deviation{relativeDeviation(p99s(truths, paperEstimate.byService, service)), service}
	}
	for _, bin := range append([]string{"all"}, sizeBins...) {
		enough := true
		for _, t := range truths {
			enough = enough && float64(t.BinFlows[bin]) >= leastBinShare*float64(t.BinFlows["all"])
		}
		if !enough {
			continue
		}
		share := relativeDeviation(p99s(truths, paperEstimate.bySize, bin))
		if share >= worst.share {
			worst = deviation{share, bin}
		}
	}
	return worst
}

// p99s returns the p99 of a group of flows in each estimate.
func p99s(all []paperEstimate, of grouping, group string) (values []float64) {
	for _, e := range all {
		values = append(values, of(e)[group].p99())
	}
	return values
}

// A grouping has the percentiles of an estimate by size bin or by service.
type grouping func(paperEstimate) map[string]percentiles

func (e paperEstimate) bySize() map[string]percentiles    { return e.Sizes }
func (e paperEstimate) byService() map[string]percentiles { return e.Services }

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}

// variance returns the unbiased estimate of the variance, and 0 for fewer than two values.
func variance(values []float64) (v float64) {
	m := mean(values)
	for _, x := range values {
		v += (x - m) * (x - m)
	}
	return v / max(1, float64(len(values)-1))
}

// relativeDeviation returns the standard deviation as a fraction of the mean. It is infinite if the mean is
// 0, because then there were no such flows.
func relativeDeviation(values []float64) float64 {
	m := mean(values)
	if m == 0 {
		return math.Inf(1)
	}
	return math.Sqrt(variance(values)) / m
}
