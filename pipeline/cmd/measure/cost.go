package main

import (
	"context"
	"fmt"
	"slices"
)

// alternate measures several things in turn, so that other load of the machine slows all of them.
func (b *bench) alternate(rounds int, sides ...func() float64) []figures {
	all := make([]figures, len(sides))
	if b.short {
		rounds = 1
	}
	for range rounds {
		for i, side := range sides {
			all[i].add("", side())
		}
	}
	return all
}

// ratios prints a row of a comparison: medians of both sides and of their ratio, with its range.
func (b *bench) ratios(what, unit string, ours, theirs figures) {
	b.row(what, decimal(ours.median())+unit, decimal(theirs.median())+unit, theirs.over(ours))
}

// benchKernel compares the link kernel with the reference link simulator on the same link cases, alternating.
func benchKernel(ctx context.Context, b *bench) {
	reference, cases := b.sharedPath("tools", "minim-bench"), b.sharedPath("reference", "links")
	figure := func(text string) float64 { return b.number(text, `ns_per_packet_hop ([\d.]+)`) }
	took := b.alternate(5,
		func() float64 { return figure(b.execute(ctx, nil, reference, cases)) },
		func() float64 { return figure(b.parsimon(ctx, "bench-kernel", "--cases", cases)) })
	b.header("what", "ours", "reference", "ratio")
	b.ratios("link kernel, 64 link cases, one thread, per packet-hop", " ns", took[1], took[0])
}

// benchRun compares a whole estimate with the reference's on the same flows, alternating, with two threads. Reading the
// flow file does not count on either side.
func benchRun(ctx context.Context, b *bench) {
	reference := b.sharedPath("tools", "ref-run")
	b.header("what", "ours", "reference", "ratio")
	for _, s := range b.sources(b.names([]string{"95"}, []string{"47"})) {
		lake := b.lake()
		b.run(ctx, lake, append(slices.Clone(s.flags), "--estimator", "independent")...)
		list := b.parsimon(ctx, "query", "--lake", lake, "--format", "json", "--sql",
			"SELECT flow_id AS id, src, dst, size_bytes AS size, start_ns AS start FROM flows")
		input := b.file("flows.json", list)
		sides := []func() float64{func() float64 {
			text := b.execute(ctx, []string{"UNPOLAR=1", "RAYON_NUM_THREADS=2"},
				reference, s.flags[1], input, b.tmp+"/out.csv") // the topology
			return b.number(text, `total_without_read ([\d.]+)`)
		}}
		ways := []string{"independent", "flow"}
		for _, way := range ways {
			sides = append(sides, func() float64 {
				e := b.run(ctx, b.lake(), append(slices.Clone(s.flags), "--workers", "2", "--estimator", way)...)
				for _, first := range e.Stages[:min(1, len(e.Stages))] { // it reads the flow file
					e.Seconds -= first.Seconds
				}
				return e.Seconds
			})
		}
		took := b.alternate(3, sides...)
		for i, way := range ways {
			b.ratios(fmt.Sprintf("estimate of scenario %s by `%s`, two threads", s.name, way), " s", took[i+1], took[0])
		}
	}
}

// benchExact compares the processor time of two passes of link cases with that of the whole network, alternating. The
// prediction by which a run chooses is fitted to its table (pipeline/auto.go).
func benchExact(ctx context.Context, b *bench) {
	b.printf("Medians of whole runs in processor seconds, cache off. Ratios of each round: median, least, greatest.")
	b.header("scenario", "`flow`", "`exact`", "`flow` / `exact`")
	names := []string{"chain-60", "slowplane-60", "ft8-ws-60", "95", "47", "7", "1001", "incast-64k-30"}
	for _, s := range b.sources(b.names([]string{"mini-mix"}, names)) {
		side := func(way string) func() float64 {
			return func() float64 {
				b.run(ctx, b.lake(), append(slices.Clone(s.flags), "--cache", "off", "--estimator", way)...)
				return b.processor.Seconds()
			}
		}
		took := b.alternate(3, side("flow"), side("exact"))
		b.row(s.name, decimal(took[0].median()), decimal(took[1].median()), took[0].over(took[1]))
	}
}
