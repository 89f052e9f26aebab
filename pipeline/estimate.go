package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/simkernel"
	"parsimon/stages"
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

// Ask estimates flows outside the workload (paper, §3.4): each draw takes a path by ECMP, draws a
// packet-normalised delay from each of its links' buckets for the flow's size, adds them up, times
// packets, and adds the ideal FCT. A link that no flow of the workload crosses adds nothing.
func (r *Run) Ask(ctx context.Context, q Question) (*Answer, error) {
	switch {
	case q.SizeBytes <= 0:
		return nil, fmt.Errorf("size is %d bytes, must be positive", q.SizeBytes)
	case q.N <= 0:
		return nil, fmt.Errorf("number of draws is %d, must be positive", q.N)
	case q.Src == q.Dst:
		return nil, fmt.Errorf("source and destination are the same host %d", q.Src)
	}
	_, bucketed, err := r.bucketStage().complete(r.lake)
	if err != nil {
		return nil, err
	}
	paths := make([][]int32, q.N)
	wanted := map[int32][]float64{}
	distinct := map[string]bool{}
	for i := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		flow := stages.NewStream(q.Seed, stages.StreamSample, uint64(i))
		p, err := r.router.Path(int64(flow.Uint64()>>1), q.Src, q.Dst, nil)
		if err != nil {
			return nil, err
		}
		paths[i] = p
		distinct[fmt.Sprint(p)] = true
		for _, link := range p {
			wanted[link] = nil
		}
	}
	if err := r.bucketsFor(q.SizeBytes, partsOf(bucketed, schema.DelayBuckets), wanted); err != nil {
		return nil, err
	}
	return &Answer{Paths: len(distinct), Quantiles: r.draw(q, paths, wanted)}, nil
}

// draw makes the flows asked about and answers their quantiles.
func (r *Run) draw(q Question, paths [][]int32, delays map[int32][]float64) []AnswerQuantile {
	packets := float64(r.spec.Params.Packets(q.SizeBytes))
	flows := make([]AnswerQuantile, q.N)
	var ideal simkernel.IdealPath
	for i, path := range paths {
		ideal.Reset(&r.spec.Params)
		var delay float64
		for hop, id := range path {
			link := &r.net.Links[id]
			ideal.Add(link.BandwidthBps, link.DelayNS)
			if d := delays[id]; len(d) > 0 {
				s := stages.NewStream(q.Seed, stages.StreamSample, uint64(i), uint64(hop)+1)
				delay += d[s.IntN(len(d))] * packets
			}
		}
		f := &flows[i]
		f.IdealNS = ideal.FCTNS(q.SizeBytes)
		f.FCTNS = f.IdealNS + int64(math.Round(delay))
		f.Slowdown = float64(f.FCTNS) / float64(f.IdealNS)
	}
	slices.SortFunc(flows, func(a, b AnswerQuantile) int {
		if a.Slowdown != b.Slowdown {
			return int(math.Copysign(1, a.Slowdown-b.Slowdown))
		}
		return int(a.FCTNS - b.FCTNS)
	})
	out := make([]AnswerQuantile, len(answerQuantiles))
	for i, p := range answerQuantiles {
		out[i] = flows[max(0, int(math.Ceil(p*float64(len(flows))))-1)]
		out[i].P = p
	}
	return out
}

// bucketsFor fills in, for every wanted link, the delays of the bucket a flow of that size belongs
// to: the first whose largest flow is not smaller, or the last.
func (r *Run) bucketsFor(size int64, parts []part, wanted map[int32][]float64) error {
	in := r.lake.read(schema.DelayBuckets, parts, nil, nil)
	defer closeQuietly(in)
	settled := map[int32]bool{}
	for {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
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
		rec.Release()
	}
}
