// Package newflows estimates flows that are not in the workload of an estimate: what a flow of some size between two
// hosts would see.
//
//	question: src, dst, size ─► N draws, each a path (ECMP) and a moment
//	draw ─► at each link of its path, the delay of a flow that was there ─► + ideal FCT ─► quantiles of slowdown
//
// How the delays are drawn depends on the estimator: aligned in time for Flow and WholeNetwork (aligned.go),
// independently for Independent (§3.4 of the paper).
package newflows

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline"
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
	P        float64 `json:"quantile"`
	Slowdown float64 `json:"slowdown"`
	FCTNS    int64   `json:"fct_ns"`
	IdealNS  int64   `json:"ideal_ns"` // of the flow that has this slowdown
}

// An asker answers questions from a complete estimate.
type asker struct{ *pipeline.Estimation }

// Ask estimates flows outside the workload of a complete estimate: each draw takes a path by ECMP, meets at every link
// what flows of the workload met there, and adds the ideal FCT. For estimators Flow and WholeNetwork the draws are
// aligned in time; for Independent they are the paper's (§3.4): a packet-normalised delay from each link's bucket for
// the flow's size, times packets. A link that no flow of the workload crosses adds nothing. The answer depends on the
// estimate and the question only. Hosts without a path between them, and a size or a number of draws that is not
// positive, are errors.
func Ask(ctx context.Context, estimate *pipeline.Estimation, q Question) (*Answer, error) {
	e := asker{estimate}
	switch {
	case q.SizeBytes <= 0:
		return nil, fmt.Errorf("size is %d bytes, must be positive", q.SizeBytes)
	case q.N <= 0:
		return nil, fmt.Errorf("number of draws is %d, must be positive", q.N)
	case q.Src == q.Dst:
		return nil, fmt.Errorf("source and destination are the same host %d", q.Src)
	}
	if err := e.Refuse(e.Variant(), pipeline.ForNewFlows); err != nil {
		return nil, err
	}
	if _, err := e.Records(schema.Slowdowns); err != nil {
		return nil, err
	}
	g, err := e.Generated()
	if err != nil {
		return nil, err
	}
	draws := make([]draw, q.N)
	known := map[string][]int32{} // different paths, each once in memory
	var buf []int32
	for i := range draws {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		flow := rng.New(q.Seed, rng.Sample, uint64(i))
		if buf, err = e.Router.Path(int64(flow.Uint64()>>1), q.Src, q.Dst, buf); err != nil {
			return nil, err
		}
		path, ok := known[fmt.Sprint(buf)]
		if !ok {
			path = slices.Clone(buf)
			known[fmt.Sprint(buf)] = path
		}
		moment := rng.New(q.Seed, rng.Sample, uint64(i), 0)
		draws[i] = draw{path: path, sizeBytes: q.SizeBytes, row: int64(moment.IntN(int(g.Flows))), except: -1}
	}
	switch estimator := e.Variant().Estimator; estimator {
	case stages.Flow, stages.WholeNetwork:
		err = e.meet(ctx, draws)
	case stages.Independent:
		err = e.meetIndependently(q, draws)
	default:
		err = fmt.Errorf("flows outside the workload are not estimated by estimator %s", estimator)
	}
	if err != nil {
		return nil, err
	}
	return &Answer{Paths: len(known), Quantiles: e.answer(draws)}, nil
}

// meetIndependently draws from the buckets of the links, by draw and hop.
func (e asker) meetIndependently(q Question, draws []draw) error {
	delays := map[int32][]float64{}
	for i := range draws {
		for _, link := range draws[i].path {
			delays[link] = nil
		}
	}
	of, err := e.linkRepresentatives()
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
	if err := e.bucketsFor(q.SizeBytes, delays); err != nil {
		return err
	}
	packets := float64(e.Spec.Params.Packets(q.SizeBytes))
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
func (e asker) ideal(d *draw, scratch *simkernel.IdealPath) int64 {
	scratch.Reset(&e.Spec.Params)
	for _, id := range d.path {
		scratch.Add(e.Network.Links[id].BandwidthBps, e.Network.Links[id].DelayNS)
	}
	return scratch.FCTNS(d.sizeBytes)
}

// answer is the distribution of what the draws met.
func (e asker) answer(draws []draw) []AnswerQuantile {
	flows := make([]AnswerQuantile, len(draws))
	var scratch simkernel.IdealPath
	for i := range draws {
		f := &flows[i]
		f.IdealNS = e.ideal(&draws[i], &scratch)
		f.FCTNS = f.IdealNS + int64(math.Round(draws[i].delayNS))
		f.Slowdown = float64(f.FCTNS) / float64(f.IdealNS)
	}
	slices.SortFunc(flows, func(a, b AnswerQuantile) int {
		return cmp.Or(cmp.Compare(a.Slowdown, b.Slowdown), cmp.Compare(a.FCTNS, b.FCTNS))
	})
	out := make([]AnswerQuantile, len(pipeline.Quantiles))
	for i, p := range pipeline.Quantiles {
		out[i] = flows[max(0, int(math.Ceil(p*float64(len(flows))))-1)]
		out[i].P = p
	}
	return out
}

// bucketsFor fills in, for every wanted link, the delays of the bucket a flow of that size belongs
// to: the first whose largest flow is not smaller, or the last.
func (e asker) bucketsFor(size int64, wanted map[int32][]float64) error {
	in, err := e.Read(schema.DelayBuckets, nil, nil)
	if err != nil {
		return err
	}
	settled := map[int32]bool{}
	return columns.Consume(in, func(rec arrow.Record) error {
		link, largest := columns.Int32s(rec, "link_id"), columns.Int64s(rec, "size_max_bytes")
		lists := columns.Named(rec, "delays").(*array.List)
		values := lists.ListValues().(*array.Float64)
		for i, id := range link { // by link, then bucket
			if _, ok := wanted[id]; !ok || settled[id] {
				continue
			}
			from, to := lists.ValueOffsets(i)
			wanted[id] = slices.Clone(values.Float64Values()[from:to])
			settled[id] = largest[i] >= size
		}
		return nil
	})
}

// linkRepresentatives returns, by link id, the link whose case stands for it; nil without clustering.
func (e asker) linkRepresentatives() ([]int32, error) {
	if e.Plan().Writer(schema.LinkClusters) == nil {
		return nil, nil
	}
	in, err := e.Read(schema.LinkClusters, []string{"link_id", "representative"}, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // read to its end, or an error is reported
	return stages.ReadClusters(e.Network, in)
}
