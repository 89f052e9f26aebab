package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages"
	"parsimon/stages/rng"
)

// A Question asks about flows that need not be in the workload.
type Question struct {
	Src, Dst  int32
	SizeBytes int64
	N         int // how many such flows to draw
	Seed      uint64
}

// An Answer is the distribution of FCT and slowdown of the flows asked about.
type Answer struct {
	Paths     int // different paths the draws took
	Quantiles []AnswerQuantile
}

// AnswerQuantile is one quantile of an Answer: the value that a share P of the flows do not exceed.
type AnswerQuantile struct {
	P        float64
	FCTNS    int64
	IdealNS  int64 // of the flow that has this slowdown
	Slowdown float64
}

// answerQuantiles are the quantiles an Answer reports.
var answerQuantiles = []float64{0.5, 0.9, 0.99, 0.999}

// Ask estimates flows outside the workload: each draw takes a path by ECMP, meets at every link what
// flows of the workload met there, and adds the ideal FCT. For estimator Flow the draws are aligned in
// time (meet). For Independent they are the paper's (§3.4): a packet-normalised delay from each link's
// bucket for the flow's size, times packets. A link that no flow of the workload crosses adds nothing.
func (r *Run) Ask(ctx context.Context, q Question) (*Answer, error) {
	switch {
	case q.SizeBytes <= 0:
		return nil, fmt.Errorf("size is %d bytes, must be positive", q.SizeBytes)
	case q.N <= 0:
		return nil, fmt.Errorf("number of draws is %d, must be positive", q.N)
	case q.Src == q.Dst:
		return nil, fmt.Errorf("source and destination are the same host %d", q.Src)
	}
	if _, _, err := r.sampleStage().complete(r.lake); err != nil {
		return nil, err
	}
	flows, err := r.flowParts()
	if err != nil {
		return nil, err
	}
	var rows int64
	for _, p := range flows {
		rows += p.Rows
	}
	draws := make([]draw, q.N)
	known := map[string][]int32{} // different paths, each once in memory
	var buf []int32
	for i := range draws {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		flow := rng.New(q.Seed, rng.Sample, uint64(i))
		if buf, err = r.router.Path(int64(flow.Uint64()>>1), q.Src, q.Dst, buf); err != nil {
			return nil, err
		}
		path, ok := known[fmt.Sprint(buf)]
		if !ok {
			path = slices.Clone(buf)
			known[fmt.Sprint(buf)] = path
		}
		moment := rng.New(q.Seed, rng.Sample, uint64(i), 0)
		draws[i] = draw{path: path, sizeBytes: q.SizeBytes, row: int64(moment.IntN(int(rows))), except: -1}
	}
	if r.estimator == stages.Flow {
		err = r.meet(ctx, draws)
	} else {
		err = r.meetIndependently(q, draws)
	}
	if err != nil {
		return nil, err
	}
	return &Answer{Paths: len(known), Quantiles: r.answer(draws)}, nil
}

// meetIndependently draws from the buckets of the links, by draw and hop.
func (r *Run) meetIndependently(q Question, draws []draw) error {
	delays := map[int32][]float64{}
	for i := range draws {
		for _, link := range draws[i].path {
			delays[link] = nil
		}
	}
	_, bucketed, err := r.bucketStage().complete(r.lake)
	if err != nil {
		return err
	}
	of, err := r.representatives()
	if err != nil {
		return err
	}
	answers := func(link int32) int32 { // the link whose buckets are the link's
		if of != nil && of[link] >= 0 {
			return of[link]
		}
		return link
	}
	for link := range maps.Clone(delays) {
		delays[answers(link)] = nil
	}
	if err := r.bucketsFor(q.SizeBytes, partsOf(bucketed, schema.DelayBuckets), delays); err != nil {
		return err
	}
	packets := float64(r.spec.Params.Packets(q.SizeBytes))
	for i := range draws {
		for hop, link := range draws[i].path {
			if d := delays[answers(link)]; len(d) > 0 {
				s := rng.New(q.Seed, rng.Sample, uint64(i), uint64(hop)+1)
				draws[i].delayNS += d[s.IntN(len(d))] * packets
			}
		}
	}
	return nil
}

// ideal is a draw's ideal FCT.
func (r *Run) ideal(d *draw, scratch *simkernel.IdealPath) int64 {
	scratch.Reset(&r.spec.Params)
	for _, id := range d.path {
		scratch.Add(r.net.Links[id].BandwidthBps, r.net.Links[id].DelayNS)
	}
	return scratch.FCTNS(d.sizeBytes)
}

// answer is the distribution of what the draws met.
func (r *Run) answer(draws []draw) []AnswerQuantile {
	flows := make([]AnswerQuantile, len(draws))
	var scratch simkernel.IdealPath
	for i := range draws {
		f := &flows[i]
		f.IdealNS = r.ideal(&draws[i], &scratch)
		f.FCTNS = f.IdealNS + int64(math.Round(draws[i].delayNS))
		f.Slowdown = float64(f.FCTNS) / float64(f.IdealNS)
	}
	slices.SortFunc(flows, func(a, b AnswerQuantile) int {
		return cmp.Or(cmp.Compare(a.Slowdown, b.Slowdown), cmp.Compare(a.FCTNS, b.FCTNS))
	})
	out := make([]AnswerQuantile, len(answerQuantiles))
	for i, p := range answerQuantiles {
		out[i] = flows[max(0, int(math.Ceil(p*float64(len(flows))))-1)]
		out[i].P = p
	}
	return out
}

// pickVariant works on the best estimate that the lake holds of the scenario: of estimator Flow with
// the most passes or, if there is none, the paper's; of the same passes, preferably without clustering.
func (r *Run) pickVariant() error {
	variants, err := r.lake.variants(r.spec.ScenarioID)
	if err != nil {
		return err
	}
	found := false
	for _, name := range variants {
		v, err := parseVariant(name)
		if err != nil || v.ablation != 0 || found && !better(v, r) {
			continue // an exact simulation, an ablation, or a lesser estimate
		}
		candidate := *r
		candidate.estimator, candidate.passes, candidate.ablation, candidate.cluster, candidate.backend = v.estimator, v.passes, 0, v.cluster, v.backend
		if _, _, err := candidate.sampleStage().complete(r.lake); err == nil {
			*r, found = candidate, true
		}
	}
	if !found {
		return fmt.Errorf("scenario %s has not been estimated: run it (parsimon run)", r.spec.ScenarioID)
	}
	return nil
}

// better says whether a variant is a better estimate than the run's.
func better(v variant, r *Run) bool {
	if v.estimator != r.estimator {
		return v.estimator == stages.Flow
	}
	if v.estimator == stages.Flow && v.passes != r.passes {
		return v.passes > r.passes
	}
	return v.cluster == nil && r.cluster != nil
}

// bucketsFor fills in, for every wanted link, the delays of the bucket a flow of that size belongs
// to: the first whose largest flow is not smaller, or the last.
func (r *Run) bucketsFor(size int64, parts []part, wanted map[int32][]float64) error {
	settled := map[int32]bool{}
	return columns.Consume(r.lake.read(schema.DelayBuckets, parts, nil, nil), func(rec arrow.Record) error {
		link := rec.Column(schema.DelayBuckets.Index("link_id")).(*array.Int32)
		largest := rec.Column(schema.DelayBuckets.Index("size_max_bytes")).(*array.Int64)
		lists := rec.Column(schema.DelayBuckets.Index("delays")).(*array.List)
		values := lists.ListValues().(*array.Float64)
		for i := range int(rec.NumRows()) { // by link, then bucket
			id := link.Value(i)
			if _, ok := wanted[id]; !ok || settled[id] {
				continue
			}
			from, to := lists.ValueOffsets(i)
			wanted[id] = slices.Clone(values.Float64Values()[from:to])
			settled[id] = largest.Value(i) >= size
		}
		return nil
	})
}
