package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
)

// ratios prints a row of a comparison: medians of both sides and of their ratio, with its range.
func (b *bench) ratios(what, unit string, ours, theirs tally) {
	var ratio tally
	for i := range ours.values {
		ratio.add("", theirs.values[i]/ours.values[i])
	}
	own, _, _ := ours.spread()
	other, _, _ := theirs.spread()
	median, least, greatest := ratio.spread()
	b.row(what, decimal(own)+unit, decimal(other)+unit, fmt.Sprintf("**%.1f** (%.1f to %.1f)", median, least, greatest))
}

// benchKernel compares the link kernel with the reference link simulator on the same link cases, alternating.
func benchKernel(ctx context.Context, b *bench) {
	reference, cases := b.sharedPath("tools", "minim-bench"), b.sharedPath("reference", "links")
	const figure = `ns_per_packet_hop ([\d.]+)`
	var ours, theirs tally
	for range b.count(5) {
		text, _ := b.execute(ctx, nil, reference, cases)
		theirs.add("", b.number(text, figure))
		text, _ = b.parsimon(ctx, "bench-kernel", "--cases", cases)
		ours.add("", b.number(text, figure))
	}
	b.header("what", "ours", "reference", "ratio")
	b.ratios("link kernel, 64 link cases, one thread, per packet-hop", " ns", ours, theirs)
}

// benchRun compares a whole estimate with the reference's on the same flows, alternating, with two threads. Reading the
// flow file does not count on either side.
func benchRun(ctx context.Context, b *bench) {
	reference := b.sharedPath("tools", "ref-run")
	ways := b.ways("independent", "flow")
	b.header("what", "ours", "reference", "ratio")
	for _, name := range b.names([]string{"95"}, []string{"47"}) {
		g, lake := b.groundTruth(name), b.lake()
		source := []string{"--topology", g.topology, "--flows", g.flows}
		b.run(ctx, lake, append(source, "--estimator", "independent")...)
		list, _ := b.parsimon(ctx, "query", "--lake", lake, "--format", "json", "--sql",
			"SELECT flow_id AS id, src, dst, size_bytes AS size, start_ns AS start FROM flows")
		input := b.file("flows.json", list)
		ours, theirs := make([]tally, len(ways)), tally{}
		for range b.count(3) {
			text, _ := b.execute(ctx, []string{"UNPOLAR=1", "RAYON_NUM_THREADS=2"},
				reference, g.topology, input, b.tmp+"/out.csv")
			theirs.add("", b.number(text, `total_without_read ([\d.]+)`))
			for i, way := range ways {
				e := b.run(ctx, b.lake(), append(append(source, "--workers", "2"), estimator(way)...)...)
				ours[i].add("", e.Seconds-e.Stages[0].Seconds) // the first stage reads the flow file
			}
		}
		for i, way := range ways {
			b.ratios(fmt.Sprintf("estimate of scenario %s by `%s`, two threads", name, way), " s", ours[i], theirs)
		}
	}
}

// benchTransports times the link kernel with each transport on one loaded link (BenchmarkTransports of
// simkernel/linkcase). The transports take turns, and the least time of each counts: other work on the machine only
// adds to it.
func benchTransports(ctx context.Context, b *bench) {
	program, duration := filepath.Join(b.tmp, "kernel.test"), "0.3s"
	if b.short {
		duration = "1x"
	}
	b.execute(ctx, nil, "go", "test", "-c", "-o", program, "./simkernel/linkcase")
	times := map[string]*tally{"dctcp": {}}
	order := []string{"dctcp"}
	result := regexp.MustCompile(`(?m)^BenchmarkTransports/([a-z]+)\S*\s.*?([\d.]+) ns/packet-hop`)
	for range b.count(7) {
		text, _ := b.execute(ctx, nil, program,
			"-test.run", "^$", "-test.bench", "BenchmarkTransports", "-test.benchtime", duration)
		for _, found := range result.FindAllStringSubmatch(text, -1) {
			if times[found[1]] == nil {
				times[found[1]], order = &tally{}, append(order, found[1])
			}
			times[found[1]].add("", b.parse(found[2]))
		}
	}
	b.header("transport", "ns per packet-hop", "of DCTCP")
	_, dctcp, _ := times["dctcp"].spread()
	for _, name := range order {
		_, least, _ := times[name].spread()
		b.row(name, decimal(least), fmt.Sprintf("%.2f", least/dctcp))
	}
}
