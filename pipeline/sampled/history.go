package sampled

import (
	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/schema/sizebin"
	"parsimon/stages"
)

// after is the estimate as it was after so many rounds. Its rows have no warnings: which flows outlast their window is
// known of all rounds together.
func (s *sampler) after(rounds int) *sampler {
	was, stratum := *s, map[int]int{}
	for h, slots := range s.design.Strata {
		for _, n := range slots {
			stratum[n] = h
		}
	}
	was.rounds, was.drawn, was.outlast = s.rounds[:rounds], make([]int, len(s.design.Strata)), nil
	for _, r := range was.rounds {
		for _, n := range r.slots {
			was.drawn[stratum[n]]++ // slots of a stratum are drawn in its order
		}
	}
	return &was
}

// windows is how many slots are drawn for a group.
func (s *sampler) windows(k Key) (n int) {
	of := s.drawn
	if !s.answers(k) {
		of = s.first
	}
	for _, drawn := range of {
		n += drawn
	}
	return n
}

// roundRows are the percentiles of all flows by size, of services and of virtual networks, as far as the last round has
// their flows.
func (s *sampler) roundRows() (out []Row) {
	for _, k := range s.index.order {
		if (k.By == stages.ByNothing || k.Bin == sizebin.Count) && (len(s.rounds) == 1 || s.answers(k)) {
			out = append(out, s.rowsOf(k)...)
		}
	}
	return out
}

// roundsRecord is the batch of table sampled_intervals. last are the rows after the last round.
func (s *sampler) roundsRecord(last []Row) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.SampledIntervals.Arrow())
	defer b.Release()
	for n := 1; n < len(s.rounds); n++ {
		was := s.after(n)
		was.appendRows(b, was.roundRows())
	}
	s.appendRows(b, last)
	return b.NewRecord()
}

// appendRows appends the rows after a round to a batch of table sampled_intervals.
func (s *sampler) appendRows(b *array.RecordBuilder, rows []Row) {
	field := func(name string) array.Builder { return b.Field(schema.SampledIntervals.Index(name)) }
	text := func(name string, x *string) {
		if x == nil {
			field(name).AppendNull()
			return
		}
		field(name).(*array.StringBuilder).Append(*x)
	}
	number := func(name string, x float64) { field(name).(*array.Float64Builder).Append(x) }
	small := func(name string, x int) { field(name).(*array.Int32Builder).Append(int32(x)) }
	for i := range rows {
		r := &rows[i]
		text("service", r.Service)
		text("vnet", r.VNet)
		text("size_bin", &r.SizeBin)
		number("quantile", r.Quantile)
		small("round", len(s.rounds))
		small("windows", s.windows(r.Key))
		field("sampled_flows").(*array.Int64Builder).Append(r.Sampled)
		number("estimate", r.Estimate)
		number("lo", r.Lo)
		number("hi", r.Hi)
		number("confidence", s.ask.Confidence)
		number("sampling_lo", r.SamplingLo)
		number("sampling_hi", r.SamplingHi)
		number("cutoff_error", s.windowError)
		number("warmup_error", s.warmup.change(r.Quantile))
		number("left_out_error", s.bound(r.Key))
		number("sustained", r.Sustained)
		if s.knowsMethod(r.Quantile) {
			number("method_lo", r.MethodLo)
			number("method_hi", r.MethodHi)
		} else {
			field("method_lo").AppendNull()
			field("method_hi").AppendNull()
		}
	}
}

// knowsMethod reports whether the method's error of a quantile was measured.
func (s *sampler) knowsMethod(q float64) bool {
	for _, m := range s.method {
		if m.Quantile == q {
			return true
		}
	}
	return false
}
