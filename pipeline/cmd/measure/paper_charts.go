package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A chart is a Vega-Lite specification.
type chart map[string]any

// notebookPython is the Python interpreter of the notebooks' environment, whose pinned packages include
// vl-convert.
const notebookPython = ".cache/notebooks/bin/python"

// draw writes a picture of the page, datasets/paper/NAME.svg, and inserts it into the page.
func (p *paper) draw(ctx context.Context, name, caption string, c chart) {
	p.writePicture(ctx, filepath.Join("datasets", "paper", name+".svg"), c)
	p.printf("\n![%s](paper/%s.svg)", caption, name)
}

// writePicture draws a chart and writes it to a file.
func (b *bench) writePicture(ctx context.Context, file string, c chart) {
	if b.err != nil {
		return
	}
	c["$schema"] = "https://vega.github.io/schema/vega-lite/v5.json"
	c["background"] = "white"
	specification, err := json.Marshal(c)
	b.fail(err)
	cmd := exec.CommandContext(ctx, notebookPython, "-c",
		"import sys, vl_convert; sys.stdout.write(vl_convert.vegalite_to_svg(sys.stdin.read()))")
	var log bytes.Buffer
	cmd.Stdin = bytes.NewReader(specification)
	cmd.Stderr = &log
	picture, err := cmd.Output()
	if err != nil {
		b.fail(fmt.Errorf("picture %s: %w (make notebooks installs %s)\n%s", file, err, notebookPython,
			log.String()))
		return
	}
	b.fail(os.MkdirAll(filepath.Dir(file), 0o755))
	b.fail(os.WriteFile(file, append(picture, '\n'), 0o644))
}

// A point is a row of the data of a chart.
type point map[string]any

// field returns an encoding channel.
func field(name, kind, title string, more ...any) map[string]any {
	f := map[string]any{"field": name, "type": kind, "title": title}
	for i := 0; i+1 < len(more); i += 2 {
		f[more[i].(string)] = more[i+1]
	}
	return f
}

// percentAxis is an option of field.
var percentAxis = []any{"axis", map[string]any{"format": "%"}}

// wayColors gives each kind of estimate the same color in all pictures.
var wayColors = map[string]any{
	"domain": []string{byExact, byIndependent, byClustered, byFlow, "the paper's Parsimon"},
	"range":  []string{"#222222", "#d95f02", "#e6ab02", "#1b9e77", "#7570b3"},
}

func byColor(title string) map[string]any {
	return field("way", "nominal", title, "scale", wayColors)
}

// mostSteps is the maximum number of points of a distribution function in a picture.
const mostSteps = 200

// cumulative returns the points of an empirical distribution function.
func cumulative(values []float64, labels point) (points []point) {
	step := max(1, len(values)/mostSteps)
	for i, x := range sorted(values) {
		if i%step != 0 && i+1 < len(values) {
			continue
		}
		pt := point{"x": x, "share": float64(i+1) / float64(len(values))}
		for k, v := range labels {
			pt[k] = v
		}
		points = append(points, pt)
	}
	return points
}

// tailChart draws the tails of slowdowns by flow size, one panel each.
func tailChart(r *paperRecord) chart {
	facet := field("size", "nominal", "flow size", "sort", append(append([]string{}, sizeBins...), "all"))
	return chart{
		"data":    map[string]any{"values": tailPoints(r)},
		"facet":   facet,
		"spec":    lineSpec(),
		"config":  map[string]any{"facet": map[string]any{"spacing": 12}},
		"resolve": map[string]any{"scale": map[string]any{"x": "independent"}},
	}
}

// tailPoints are the tails of the first draw. Estimates that are not measured yet have none.
func tailPoints(r *paperRecord) (points []point) {
	for _, way := range r.Item.Ways {
		if len(r.Runs[way]) == 0 {
			continue
		}
		for group, tail := range r.Runs[way][0].Estimate.Tails {
			service, bin, found := strings.Cut(group, ": ")
			if !found {
				bin = group
			}
			for i, x := range tail {
				points = append(points, point{"way": way, "service": service, "size": bin, "slowdown": x,
					"share": tailQuantiles[i]})
			}
		}
	}
	return points
}

// mixChart draws the tails of a mix of workloads by service and flow size.
func mixChart(r *paperRecord) chart {
	return chart{
		"data": map[string]any{"values": tailPoints(r)},
		"facet": map[string]any{
			"row":    field("service", "nominal", "workload"),
			"column": field("size", "nominal", "flow size", "sort", append(append([]string{}, sizeBins...), "all")),
		},
		"spec":    lineSpec(),
		"resolve": map[string]any{"scale": map[string]any{"x": "independent"}},
	}
}

// trialChart draws the errors of trials, a row for each kind of estimate.
func trialChart(data []point) chart {
	return chart{
		"width": 400, "height": 80,
		"data": map[string]any{"values": data},
		"mark": map[string]any{"type": "point", "filled": true, "opacity": 0.7, "size": 60},
		"encoding": map[string]any{
			"x":     field("error", "quantitative", "error of p99", percentAxis...),
			"y":     field("way", "nominal", ""),
			"shape": field("cable", "nominal", "cable"),
			"color": byColor("estimate"),
		},
	}
}

// lineSpec is a panel of tailChart.
func lineSpec() map[string]any {
	return map[string]any{
		"width": 150, "height": 150,
		"mark": map[string]any{"type": "line", "strokeWidth": 1.5},
		"encoding": map[string]any{
			"x": field("slowdown", "quantitative", "slowdown", "scale", map[string]any{"zero": false}),
			"y": field("share", "quantitative", "share of flows", "scale",
				map[string]any{"domain": []float64{0.8, 1}, "clamp": true}),
			"color": byColor("estimate"),
			"order": field("share", "quantitative", ""),
		},
	}
}

// parkingChart draws the tails of the microbenchmarks, one panel each.
func parkingChart(records []*paperRecord) chart {
	var data []point
	var names []string
	for _, r := range records {
		names = append(names, r.Item.Name)
		for _, way := range r.Item.Ways {
			for i, x := range r.Runs[way][0].Estimate.Tails["all"] {
				data = append(data, point{"way": way, "size": r.Item.Name, "slowdown": x, "share": tailQuantiles[i]})
			}
		}
	}
	spec := lineSpec()
	spec["encoding"].(map[string]any)["y"] = field("share", "quantitative", "share of flows")
	return chart{
		"data":    map[string]any{"values": data},
		"facet":   field("size", "nominal", "scenario", "sort", names),
		"columns": 4,
		"spec":    spec,
		"resolve": map[string]any{"scale": map[string]any{"x": "independent"}},
	}
}

// errorChart draws distribution functions of errors, one panel for each range of the load.
func errorChart(data []point) chart {
	return chart{
		"data":  map[string]any{"values": data},
		"facet": field("load", "nominal", "load asked of the busiest link"),
		"spec": map[string]any{
			"width": 200, "height": 160,
			"mark": map[string]any{"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
			"encoding": map[string]any{
				"x":     field("x", "quantitative", "error of p99", percentAxis...),
				"y":     field("share", "quantitative", "share of scenarios"),
				"color": byColor("estimate"),
				"order": field("share", "quantitative", ""),
			},
		},
	}
}

// parameterChart draws the errors by value of each parameter, low loads above and high loads below.
func parameterChart(data []point) chart {
	return chart{
		"data": map[string]any{"values": data},
		"facet": map[string]any{
			"column": field("parameter", "nominal", ""),
			"row":    field("load", "nominal", "load"),
		},
		"spec": map[string]any{
			"width": 150, "height": 150,
			"encoding": map[string]any{
				"x":       field("value", "nominal", ""),
				"xOffset": field("way", "nominal", ""),
				"y":       field("error", "quantitative", "error of p99", percentAxis...),
				"color":   byColor("estimate"),
			},
			"mark": map[string]any{"type": "boxplot", "size": 14, "extent": "min-max"},
		},
		"resolve": map[string]any{"scale": map[string]any{"x": "independent", "y": "independent"}},
	}
}

// besideChart draws our error against that of the paper or its code, with a point for each scenario. marks
// are the encoding channels of a point.
func besideChart(data []point, theirs string, marks map[string]any) chart {
	encoding := map[string]any{
		"x": field("paper", "quantitative", theirs, percentAxis...),
		"y": field("ours", "quantitative", "error of p99, our independent", percentAxis...),
	}
	maps.Copy(encoding, marks)
	return chart{
		"width": 300, "height": 300,
		"data":     map[string]any{"values": data},
		"mark":     map[string]any{"type": "point", "filled": true, "opacity": 0.7},
		"encoding": encoding,
	}
}

// functionChart draws distribution functions, one line for each name. The scale of x is linear or log.
func functionChart(data []point, x, y, scale string) chart {
	return chart{
		"data":  map[string]any{"values": data},
		"facet": field("panel", "nominal", ""),
		"spec": map[string]any{
			"width": 200, "height": 160,
			"mark": map[string]any{"type": "line", "strokeWidth": 1.5},
			"encoding": map[string]any{
				"x":          field("x", "quantitative", x, "scale", map[string]any{"type": scale}),
				"y":          field("share", "quantitative", y),
				"color":      field("name", "nominal", ""),
				"strokeDash": field("origin", "nominal", ""),
				"order":      field("share", "quantitative", ""),
			},
		},
	}
}

// matrixChart draws the weights of matrices, with a panel for each.
func matrixChart(data []point) chart {
	return chart{
		"data":    map[string]any{"values": data},
		"facet":   field("panel", "nominal", ""),
		"columns": 3,
		"spec": map[string]any{
			"width": 140, "height": 140,
			"mark": "rect",
			"encoding": map[string]any{
				"x": field("to", "ordinal", "to rack", "axis", map[string]any{"labels": false, "ticks": false}),
				"y": field("from", "ordinal", "from rack", "axis", map[string]any{"labels": false, "ticks": false}),
				"color": field("weight", "quantitative", "weight", "scale",
					map[string]any{"type": "sqrt", "scheme": "viridis"}),
			},
		},
	}
}
