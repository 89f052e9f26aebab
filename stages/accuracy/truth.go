package main

import (
	"context"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema/columns"
	"parsimon/stages"
	"parsimon/stages/topology"
)

// exact simulates the whole network and returns the FCT of each flow.
func (s *scenario) exact() ([]float64, error) {
	router, err := topology.NewRouter(s.net, seed)
	if err != nil {
		return nil, err
	}
	fcts := &table{}
	_, err = stages.Exact(context.Background(), s.net, router, s.params, s.flows().read(), stages.ExactOptions{Domains: 1},
		fcts, &table{}, nil)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(s.id))
	return out, columns.ForEach(fcts.read(), func(rec arrow.Record) error {
		fct := columns.Int64s(rec, "fct_ns")
		for i, row := range columns.Int64s(rec, "flow_row") {
			out[row] = float64(fct[i])
		}
		return nil
	})
}

// jittered is the truth with every other flow starting 1 ns later, where that does not change the order of starts.
func (s *scenario) jittered() ([]float64, error) {
	moved := *s
	moved.startNS = append([]int64(nil), s.startNS...)
	for f := 2; f+1 < len(moved.startNS); f += 2 {
		if moved.startNS[f] < moved.startNS[f+1] {
			moved.startNS[f]++
		}
	}
	return moved.exact()
}
