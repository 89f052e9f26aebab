package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
)

const growthPicture = "pipeline/growth.svg"

// A growthPoint is one estimate of the picture.
type growthPoint struct {
	hosts           string
	packetHops, cpu float64
}

// growth estimates networks of several sizes for several durations. With --write it also draws the processor time.
func growth(ctx context.Context, b *bench) {
	networks := map[string]string{
		"256":  "pods: 2, racks_per_pod: 16, hosts_per_rack: 8, planes: 2",
		"1024": "pods: 4, racks_per_pod: 16, hosts_per_rack: 16, planes: 4",
		"6144": "pods: 8, racks_per_pod: 48, hosts_per_rack: 16, planes: 4",
	}
	durations := []string{"0.5s", "1s", "2s", "5s"}
	if b.short {
		durations = []string{"0.02s", "0.05s"}
	}
	b.header(costs("hosts", "arrivals")...)
	var points []growthPoint
	for _, hosts := range b.names([]string{"256"}, []string{"256", "1024", "6144"}) {
		for _, duration := range durations {
			scenario := b.file("growth.yaml", fmt.Sprintf(`
topology:
  clos: {%s, oversubscription: 2, host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
workload:
  max_load: 50%%
  duration: %s
  services:
    - {name: web, matrix: webserver, sizes: webserver, sigma: 2}
`, networks[hosts], duration))
			lake := b.lake()
			e := b.run(ctx, lake, append([]string{scenario}, estimator(b.ways("flow --passes 1")[0])...)...)
			b.row(b.cost(ctx, lake, e, hosts, duration)...)
			points = append(points, growthPoint{hosts, e.Cases.PacketHops, e.processor})
		}
	}
	if b.write && b.err == nil {
		b.fail(os.WriteFile(growthPicture, []byte(drawGrowth(points)), 0o644))
	}
}

// drawGrowth draws processor seconds against packet-hops on logarithmic axes as SVG.
func drawGrowth(points []growthPoint) string {
	const left, right, top, bottom = 70.0, 570.0, 40.0, 340.0
	xlo, xhi, ylo, yhi := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, p := range points {
		x, y := math.Log10(p.packetHops), math.Log10(p.cpu)
		xlo, xhi = min(xlo, math.Floor(x)), max(xhi, math.Floor(x)+1)
		ylo, yhi = min(ylo, math.Floor(y)), max(yhi, math.Floor(y)+1)
	}
	x := func(e float64) float64 { return left + (right-left)*(e-xlo)/(xhi-xlo) }
	y := func(e float64) float64 { return bottom - (bottom-top)*(e-ylo)/(yhi-ylo) }
	var s strings.Builder
	text := func(x, y float64, attributes, text string) {
		fmt.Fprintf(&s, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes, text)
	}
	line := func(x1, y1, x2, y2 float64) {
		fmt.Fprintf(&s, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", x1, y1, x2, y2)
	}
	s.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 400" font-family="sans-serif"` +
		" font-size=\"12\"><rect width=\"640\" height=\"400\" fill=\"white\"/>\n")
	for e := xlo; e <= xhi; e++ {
		line(x(e), top, x(e), bottom)
		text(x(e), bottom+18, `text-anchor="middle"`, si(math.Pow(10, e)))
	}
	for e := ylo; e <= yhi; e++ {
		line(left, y(e), right, y(e))
		text(left-8, y(e)+4, `text-anchor="end"`, fmt.Sprintf("%g", math.Pow(10, e)))
	}
	text(320, 385, `text-anchor="middle"`, "packet-hops")
	text(16, 190, `text-anchor="middle" transform="rotate(-90 16 190)"`, "processor seconds")
	text(580, top, "", "hosts")
	colours := []string{"#1f77b4", "#d62728", "#2ca02c"}
	known := map[string]string{}
	for _, p := range points {
		if known[p.hosts] == "" {
			known[p.hosts] = colours[len(known)%len(colours)]
			at := top + 18*float64(len(known))
			fmt.Fprintf(&s, "<circle cx=\"585\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>", at, known[p.hosts])
			text(594, at+4, "", p.hosts)
		}
		fmt.Fprintf(&s, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n",
			x(math.Log10(p.packetHops)), y(math.Log10(p.cpu)), known[p.hosts])
	}
	return s.String() + "</svg>\n"
}
