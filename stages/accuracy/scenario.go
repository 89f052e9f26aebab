package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/parquet-go/parquet-go"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// scenario is a workload on a network, and the true FCT of each flow.
type scenario struct {
	name, dir     string
	net           *topology.Network
	params        simkernel.Params
	id            []int64
	src, dst      []int32
	size, startNS []int64
	truthNS       []float64 // NaN: none
}

type flowRow struct {
	FlowID *int64 `parquet:"flow_id,optional"`
	Src    int32  `parquet:"src,optional"`
	Dst    int32  `parquet:"dst,optional"`
	Size   int64  `parquet:"size_bytes,optional"`
	Start  int64  `parquet:"start_ns,optional"`
}

type fctRow struct {
	FlowID int64 `parquet:"flow_id"`
	FCT    int64 `parquet:"fct_ns"`
}

func readRows[T any](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := parquet.NewGenericReader[T](f)
	rows := make([]T, r.NumRows())
	n, err := r.Read(rows)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return rows[:n], errors.Join(err, r.Close(), f.Close())
}

// load reads a scenario of the shared reference data; most bounds the number of flows.
func load(shared, name string, p simkernel.Params, most int) (*scenario, error) {
	s := &scenario{name: name, dir: filepath.Join(shared, "hard", name), params: p}
	network := filepath.Join(s.dir, "topology.json")
	if _, err := os.Stat(s.dir); err != nil {
		s.dir = filepath.Join(shared, "scenarios", name)
		text, err := os.ReadFile(filepath.Join(s.dir, "scenario.json"))
		if err != nil {
			return nil, err
		}
		for _, known := range []string{"cluster_1_to_1", "cluster_2_to_1", "cluster_4_to_1"} {
			if strings.Contains(string(text), known) {
				network = filepath.Join(shared, "topologies", known+".json")
			}
		}
	}
	var err error
	if s.net, err = topology.Read(network); err != nil {
		return nil, err
	}
	rows, err := readRows[flowRow](filepath.Join(s.dir, "flows.parquet"))
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].FlowID == nil {
			id := int64(i)
			rows[i].FlowID = &id
		}
	}
	slices.SortStableFunc(rows, func(a, b flowRow) int { return int(a.Start - b.Start) })
	for _, r := range rows[:min(most, len(rows))] {
		if r.Size > 0 {
			s.id, s.src, s.dst = append(s.id, *r.FlowID), append(s.src, r.Src), append(s.dst, r.Dst)
			s.size, s.startNS = append(s.size, r.Size), append(s.startNS, r.Start)
		}
	}
	return s, nil
}

// flows returns table flows.
func (s *scenario) flows() *table {
	n := len(s.id)
	none := columns.Strings(make([]string, n))
	return &table{array.NewRecord(schema.Flows.Arrow(), []arrow.Array{columns.Of(s.id), columns.Of(s.src),
		columns.Of(s.dst), columns.Of(s.size), columns.Of(s.startNS), none, none, columns.False(n)}, int64(n))}
}

// readTruth reads the true FCTs, or simulates them and keeps them in the cache. It returns where they are from.
func (s *scenario) readTruth(cache string) (string, error) {
	transport := s.params.Transport.String()
	files := []string{"exact.parquet", "ns3.parquet"}
	if s.params.Transport != simkernel.DCTCP {
		files = []string{"ns3_" + transport + ".parquet"}
	}
	kept := filepath.Join(cache, fmt.Sprintf("%s-%s-%d.parquet", s.name, transport, len(s.id)))
	for _, f := range append(files, kept) {
		if f != kept {
			f = filepath.Join(s.dir, f)
		}
		rows, err := readRows[fctRow](f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", fmt.Errorf("%s: %w", f, err)
		}
		of := map[int64]float64{}
		for _, r := range rows {
			of[r.FlowID] = float64(r.FCT)
		}
		for _, id := range s.id {
			fct, ok := of[id]
			if !ok {
				fct = math.NaN()
			}
			s.truthNS = append(s.truthNS, fct)
		}
		return filepath.Base(f), nil
	}
	var err error
	if s.truthNS, err = s.exact(); err != nil {
		return "", err
	}
	var rows []fctRow
	for f, id := range s.id {
		rows = append(rows, fctRow{id, int64(s.truthNS[f])})
	}
	return filepath.Base(kept), parquet.WriteFile(kept, rows)
}
