package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"parsimon/pipeline/scenario"
)

// This file has the rule for the length of workloads. It is the same for all items, and looks only at the
// flows and at the truth, never at an estimate:
//
//   - The length of an item is the first of 0.5, 1, 2, 4, 8 and 16 s for which both other conditions hold.
//   - Three of the first eight seeds draw flows whose busiest link is within 10% of the load in the paper.
//     The first three of them are the draws. A shorter workload of large flows puts far more load on its
//     busiest link than the scenario asks for.
//   - Between the draws, the true p99 of slowdown deviates by at most 10% in each size bin that has at least
//     1% of the flows.
const (
	shortestLength = 500 * time.Millisecond
	longestLength  = 16 * time.Second
	longestShort   = 2 * time.Second // with --short
	drawsCount     = 3
	seedsCount     = 8
	loadTolerance  = 0.1
	mostDeviation  = 0.1
	leastBinShare  = 0.01
)

// A paperDraws is the choice of the draws of an item for one length.
type paperDraws struct {
	Item   paperItem     `json:"item"`
	Method string        `json:"method"`
	Length time.Duration `json:"length_ns"`
	Seeds  []uint64      `json:"seeds"` // of the draws; fewer than drawsCount if the length is too short
	Loads  []float64     `json:"loads"` // of the busiest links of all seeds that were tried
}

// A deviation is the largest standard deviation of p99 of a group of flows, relative to its mean.
type deviation struct {
	share float64
	group string // size bin or service
}

// settle returns the draws of an item, and how much their truth deviates.
func (p *paper) settle(ctx context.Context, item paperItem) (d paperDraws, of deviation, err error) {
	if item.Given {
		return paperDraws{Item: item, Seeds: []uint64{0}}, of, nil
	}
	reason := "load"
	for length := shortestLength; length <= p.longest; length *= 2 {
		d, err = p.choose(ctx, item, length)
		if err != nil {
			return d, of, err
		}
		if len(d.Seeds) < drawsCount {
			continue
		}
		var truths []paperEstimate
		for _, seed := range d.Seeds {
			run, err := p.estimate(ctx, paperRun{Item: item, Way: byExact, Seed: seed, Length: length})
			if err != nil {
				return d, of, err
			}
			truths = append(truths, run.Estimate)
		}
		of = truthDeviation(truths, item.Service)
		if of.share <= mostDeviation {
			return d, of, nil
		}
		reason = "deviation of the truth"
	}
	return d, of, fmt.Errorf("its %s needs more than %v", reason, p.longest)
}

// choose returns the draws of an item for a length. The choice is stored, because drawing takes time, too.
func (p *paper) choose(ctx context.Context, item paperItem, length time.Duration) (d paperDraws, err error) {
	name := strings.ReplaceAll(item.Section+"-"+item.Name, "/", "-")
	file := filepath.Join(p.folder, fmt.Sprintf("%s-%v-draws.json", name, length))
	if p.readStored(file, &d) && d.Method == p.method && reflect.DeepEqual(d.Item, item) {
		return d, nil
	}
	if p.late() {
		return d, errLate
	}
	d, err = drawItem(ctx, item, length)
	if err != nil {
		p.fail(fmt.Errorf("%s: %w", item.key(), err))
		return d, p.err
	}
	d.Method = p.method
	p.store(file, d)
	return d, p.err
}

// drawItem draws the flows of one seed after the other, until enough of them load the busiest link as in the
// paper or too few seeds are left for that.
func drawItem(ctx context.Context, item paperItem, length time.Duration) (d paperDraws, err error) {
	d = paperDraws{Item: item, Length: length}
	s, err := scenario.Load(item.Args[0])
	if err != nil {
		return d, err
	}
	first := s.Seed
	for n := range uint64(seedsCount) {
		if len(d.Seeds) == drawsCount || len(d.Seeds)+seedsCount-int(n) < drawsCount {
			break
		}
		err := s.SetAll([]scenario.Setting{
			{Key: "seed", Value: fmt.Sprint(first + n)},
			{Key: "workload.duration", Value: length.String()},
		})
		if err != nil {
			return d, err
		}
		l, err := drawLoads(ctx, s)
		if err != nil {
			return d, err
		}
		want := item.Load
		if want == 0 {
			want = l.asked
		}
		if want == 0 {
			return d, errors.New("the scenario asks for no load")
		}
		d.Loads = append(d.Loads, l.payload)
		if abs(l.payload/want-1) <= loadTolerance {
			d.Seeds = append(d.Seeds, first+n)
		}
	}
	return d, nil
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
