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

	"parsimon/pipeline/lake"
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

// Quantiles are the quantiles of slowdown that answers report.
var Quantiles = []float64{0.5, 0.9, 0.99, 0.999}

// Ask estimates flows outside the workload: each draw takes a path by ECMP, meets at every link what
// flows of the workload met there, and adds the ideal FCT. For estimator Flow the draws are aligned in
// time (meet). For Independent they are the paper's (§3.4): a packet-normalised delay from each link's
// bucket for the flow's size, times packets. A link that no flow of the workload crosses adds nothing.
func (e *Estimation) Ask(ctx context.Context, q Question) (*Answer, error) {
	switch {
	case q.SizeBytes <= 0:
		return nil, fmt.Errorf("size is %d bytes, must be positive", q.SizeBytes)
	case q.N <= 0:
		return nil, fmt.Errorf("number of draws is %d, must be positive", q.N)
	case q.Src == q.Dst:
		return nil, fmt.Errorf("source and destination are the same host %d", q.Src)
	}
	if _, err := e.Sampled(); err != nil {
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
	switch e.variant.Estimator {
	case stages.Flow:
		err = e.meet(ctx, draws)
	case stages.Independent:
		err = e.meetIndependently(q, draws)
	default:
		err = fmt.Errorf("flows outside the workload are not estimated by estimator %s", e.variant.Estimator)
	}
	if err != nil {
		return nil, err
	}
	return &Answer{Paths: len(known), Quantiles: e.answer(draws)}, nil
}

// meetIndependently draws from the buckets of the links, by draw and hop.
func (e *Estimation) meetIndependently(q Question, draws []draw) error {
	delays := map[int32][]float64{}
	for i := range draws {
		for _, link := range draws[i].path {
			delays[link] = nil
		}
	}
	plan := e.plan()
	bucketed, err := e.exec.Records(plan.Find("bucket", 0))
	if err != nil {
		return err
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
	if err := e.bucketsFor(q.SizeBytes, bucketed.Files(schema.DelayBuckets), delays); err != nil {
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
func (e *Estimation) ideal(d *draw, scratch *simkernel.IdealPath) int64 {
	scratch.Reset(&e.Spec.Params)
	for _, id := range d.path {
		scratch.Add(e.Network.Links[id].BandwidthBps, e.Network.Links[id].DelayNS)
	}
	return scratch.FCTNS(d.sizeBytes)
}

// answer is the distribution of what the draws met.
func (e *Estimation) answer(draws []draw) []AnswerQuantile {
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
	out := make([]AnswerQuantile, len(Quantiles))
	for i, p := range Quantiles {
		out[i] = flows[max(0, int(math.Ceil(p*float64(len(flows))))-1)]
		out[i].P = p
	}
	return out
}

// bucketsFor fills in, for every wanted link, the delays of the bucket a flow of that size belongs
// to: the first whose largest flow is not smaller, or the last.
func (e *Estimation) bucketsFor(size int64, files []lake.DataFile, wanted map[int32][]float64) error {
	settled := map[int32]bool{}
	in := e.Lake.Read(schema.DelayBuckets, files, nil, nil)
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
func (e *Estimation) linkRepresentatives() ([]int32, error) {
	cluster := e.plan().Find("cluster", 0)
	if cluster == nil {
		return nil, nil
	}
	r, err := e.exec.Records(cluster)
	if err != nil {
		return nil, err
	}
	in := e.Lake.Read(schema.LinkClusters, r.Files(schema.LinkClusters), []string{"link_id", "representative"}, nil)
	defer func() { _ = in.Close() }() // read to its end, or an error is reported
	return stages.ReadClusters(e.Network, in)
}
