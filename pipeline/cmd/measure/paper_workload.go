package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
	"parsimon/stages/workload"
)

// paperMatrices are the paper's matrices, each with the kind that replaces it in this project.
var paperMatrices = []struct{ letter, kind string }{
	{"A", workload.MatrixDatabase},
	{"B", workload.MatrixWebServer},
	{"C", workload.MatrixHadoop},
}

// workloadSection compares the matrices, sizes and loads from which flows are drawn with those of the paper.
func (p *paper) workloadSection(ctx context.Context) {
	p.text("workload")
	if !p.hasShared("the published matrices and sizes") {
		return
	}
	p.sizesFigure(ctx)
	p.loadsFigure(ctx)
}

func (p *paper) sizesFigure(ctx context.Context) {
	var data []point
	p.printf("Flow sizes: mean, and share of flows below 1 KB and 10 KB:")
	p.header("distribution", "ours", "read off the paper's source")
	for _, name := range []string{"cachefollower", "webserver", "hadoop"} {
		cells := []any{name}
		for origin, file := range []string{filepath.Join("datasets", "sizes", name+".txt"),
			p.sharedPath("reference", "sizes", name+"-all.txt")} {
			c, err := workload.ReadSizeCDF(file)
			if err != nil {
				p.fail(err)
				return
			}
			for _, at := range c.Points() {
				data = append(data, point{"panel": "flow sizes", "name": name, "x": at.Bytes, "share": at.Percent / 100,
					"origin": []string{"ours", "published"}[origin]})
			}
			cells = append(cells, fmt.Sprintf("%.0f KB, %s, %s", c.Mean()/1000, share(below(c, 1000)),
				share(below(c, 10_000))))
		}
		p.row(cells...)
	}
	p.draw(ctx, "sizes", "Flow sizes", functionChart(data, "bytes", "share of flows", "log"))
}

// below returns the share of flows below a size.
func below(c *workload.SizeCDF, bytes int64) float64 {
	const steps = 10_000
	n := 0
	for i := range steps {
		if c.Size((float64(i)+0.5)/steps) < bytes {
			n++
		}
	}
	return float64(n) / steps
}

func (p *paper) loadsFigure(ctx context.Context) {
	var data, weights []point
	p.printf("\nLoads of links relative to the busiest link, as the matrices yield them (32 racks): mean, and " +
		"90th percentile:")
	p.header("matrix", "oversubscription", "ours", "with the published matrix")
	for _, m := range paperMatrices {
		file := "cluster_" + strings.ToLower(m.letter) + "_2_16.json"
		published, err := workload.ReadMatrix(p.sharedPath("reference", "matrices", file))
		if err != nil {
			p.fail(err)
			return
		}
		ours, err := workload.NewMatrixOf(m.kind, 2, 16, 1)
		if err != nil {
			p.fail(err)
			return
		}
		for origin, matrix := range []*workload.Matrix{ours, published} {
			weights = append(weights, p.matrixPoints(m.letter+", "+[]string{"ours", "published"}[origin], matrix)...)
		}
		for _, ratio := range []string{"1", "4"} {
			cells := []any{m.letter, ratio + "-to-1"}
			for origin, matrix := range []*workload.Matrix{ours, published} {
				loads := p.normalizedLoads(ctx, ratio, matrix)
				if p.err != nil {
					return
				}
				data = append(data, cumulative(loads, point{"panel": ratio + "-to-1", "name": m.letter,
					"origin": []string{"ours", "published"}[origin]})...)
				mean := 0.0
				for _, x := range loads {
					mean += x / float64(len(loads))
				}
				cells = append(cells, share(mean)+", "+share(sorted(loads)[len(loads)*9/10]))
			}
			p.row(cells...)
		}
	}
	p.draw(ctx, "matrices", "Weights between pairs of racks", matrixChart(weights))
	p.draw(ctx, "loads", "Loads of links relative to the busiest",
		functionChart(data, "load / greatest load", "share of links", "linear"))
}

// matrixPoints returns the cells of a matrix, two racks by two, relative to the largest.
func (p *paper) matrixPoints(panel string, m *workload.Matrix) (points []point) {
	cells := map[[2]int]float64{}
	greatest := 0.0
	for i := range m.Racks() {
		for j := range m.Racks() {
			at := [2]int{i / 2, j / 2}
			cells[at] += m.Weight(i, j)
			greatest = max(greatest, cells[at])
		}
	}
	for i := range (m.Racks() + 1) / 2 {
		for j := range (m.Racks() + 1) / 2 {
			weight := math.Round(1000*cells[[2]int{i, j}]/greatest) / 1000
			points = append(points, point{"panel": panel, "from": i, "to": j, "weight": weight})
		}
	}
	return points
}

// normalizedLoads returns the expected loads of all links of the small topology, divided by the largest.
func (p *paper) normalizedLoads(ctx context.Context, ratio string, m *workload.Matrix) []float64 {
	file := p.sharedPath("reference", "topologies", "cluster_"+ratio+"_to_1.json")
	loaded, err := format.Load(file, format.Options{})
	var n *topology.Network
	if err == nil {
		n, err = loaded.Usable()
	}
	var router *topology.Router
	if err == nil {
		router, err = topology.NewRouter(ctx, n, 1)
	}
	if err != nil {
		p.fail(err)
		return nil
	}
	sizes, err := workload.NewSizeCDF([]workload.SizePoint{{Bytes: 1000, Percent: 100}})
	p.fail(err)
	service := workload.Service{Name: "main", Matrix: m, Sizes: sizes, Share: 1, Sigma: 1}
	w := &workload.Workload{MaxLoad: 0.5, Flows: 1, Services: []workload.Service{service}}
	plan, err := workload.NewPlan(router, w)
	if err != nil {
		p.fail(err)
		return nil
	}
	loads := slices.Clone(plan.LinkLoad)
	for i := range loads {
		loads[i] /= plan.MaxLoad
	}
	return loads
}
