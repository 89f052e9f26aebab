package pipeline

import (
	"fmt"
	"os"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
)

func TestZZFluid(t *testing.T) {
	if os.Getenv("ZZ_WHOLE") == "" {
		t.Skip()
	}
	l, err := lake.Open(os.Getenv("ZZ_WHOLE"), false)
	if err != nil {
		t.Fatal(err)
	}
	model, err := OpenModel(l, "")
	if err != nil {
		t.Fatal(err)
	}
	v, _ := BestVariant(model)
	run := ReadOnly(model, v, Settings{})
	type live struct {
		id, start, end, size int64
	}
	f := newFluid(accessBandwidths(run.Network))
	var act []live
	next := int64(100e6)
	bins := []int64{0, 1e4, 1e5, 1e6, 1e7, 1e12}
	var tn, tb, fn, fb, common [5]float64
	bin := func(s int64) int {
		for i := 4; i > 0; i-- {
			if s >= bins[i] {
				return i
			}
		}
		return 0
	}
	in, err := run.Read(schema.Slowdowns, []string{"flow_id", "src", "dst", "size_bytes", "start_ns", "fct_ns"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[int64]int64{}
	err = columns.Consume(in, func(rec arrow.Record) error {
		id, size, start, fct := columns.Int64s(rec, "flow_id"), columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns"), columns.Int64s(rec, "fct_ns")
		src, dst := columns.Int32s(rec, "src"), columns.Int32s(rec, "dst")
		for i := range id {
			for start[i] >= next {
				f.advance(next)
				kept := act[:0]
				truth := map[int64]bool{}
				for _, a := range act {
					if a.end > next {
						kept = append(kept, a)
						b := bin(a.size)
						tn[b]++
						tb[b] += float64(a.size) * float64(a.end-next) / float64(a.end-a.start)
						truth[a.id] = true
					}
				}
				act = kept
				f.each(func(c *carried) {
					b := bin(sizes[c.id])
					fn[b]++
					fb[b] += c.remaining
					if truth[c.id] {
						common[b]++
					}
				})
				next += 20e6
			}
			sizes[id[i]] = size[i]
			act = append(act, live{id[i], start[i], start[i] + fct[i], size[i]})
			f.add(start[i], carried{id: id[i], src: src[i], dst: dst[i], remaining: float64(size[i])})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for b := range tn {
		fmt.Printf(">= %8d  true %6.0f flows %10.0f bytes   fluid %6.0f flows %10.0f bytes  common %6.0f\n", bins[b], tn[b], tb[b], fn[b], fb[b], common[b])
	}
}
