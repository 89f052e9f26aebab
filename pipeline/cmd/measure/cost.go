package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ratios prints a row of a comparison: medians of both sides and of their ratio, with its range.
func (b *bench) ratios(what, unit string, ours, theirs tally) {
	own, _, _ := ours.spread()
	other, _, _ := theirs.spread()
	b.row(what, decimal(own)+unit, decimal(other)+unit, theirs.over(ours))
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
		s, lake := b.source(name), b.lake()
		b.run(ctx, lake, append(slices.Clone(s.flags), "--estimator", "independent")...)
		list, _ := b.parsimon(ctx, "query", "--lake", lake, "--format", "json", "--sql",
			"SELECT flow_id AS id, src, dst, size_bytes AS size, start_ns AS start FROM flows")
		input := b.file("flows.json", list)
		ours, theirs := make([]tally, len(ways)), tally{}
		for range b.count(3) {
			text, _ := b.execute(ctx, []string{"UNPOLAR=1", "RAYON_NUM_THREADS=2"},
				reference, s.flags[1], input, b.tmp+"/out.csv") // the topology
			theirs.add("", b.number(text, `total_without_read ([\d.]+)`))
			for i, way := range ways {
				e := b.run(ctx, b.lake(), slices.Concat(s.flags, []string{"--workers", "2"}, estimator(way))...)
				if b.err == nil {
					ours[i].add("", e.Seconds-e.Stages[0].Seconds) // the first stage reads the flow file
				}
			}
		}
		for i, way := range ways {
			b.ratios(fmt.Sprintf("estimate of scenario %s by `%s`, two threads", name, way), " s", ours[i], theirs)
		}
	}
}

// benchExact compares what estimates by link cases, in two passes, cost with the simulation of the whole network,
// alternating, and with what a run chooses by default.
func benchExact(ctx context.Context, b *bench) {
	b.printf("Medians of whole runs, cache off. Ratios are of the same round: median, least and greatest.")
	b.header("scenario", "packet-hops", "`flow`", "`exact`", "default", "`flow` / `exact`", "processor, `flow` / `exact`")
	for _, name := range b.names([]string{"mini-mix"},
		[]string{"chain-60", "slowplane-60", "ft8-ws-60", "95", "47", "7", "1001", "incast-64k-30"}) {
		s := b.source(name)
		var seconds, processor [3]tally
		var hops float64
		var chosen string
		for range b.count(3) {
			for i, way := range []string{"flow", "exact", "auto"} {
				lake := b.lake()
				e := b.run(ctx, lake, slices.Concat(s.flags, []string{"--cache", "off"}, estimator(way))...)
				seconds[i].add("", e.Seconds)
				processor[i].add("", e.processor)
				chosen = e.Variant
				hops = queryRow[struct{ Packets float64 }](ctx, b, lake,
					"SELECT sum(packets)::DOUBLE AS packets FROM link_stats_all WHERE "+e.where()).Packets
			}
		}
		var medians [3]string
		for i := range seconds {
			median, _, _ := seconds[i].spread()
			medians[i] = decimal(median) + " s"
		}
		b.row(name, si(hops), medians[0], medians[1], medians[2]+" ("+chosen+")", seconds[0].over(seconds[1]),
			processor[0].over(processor[1]))
	}
}

// large estimates the paper's headline scenario, 6,144 hosts: time, memory and disk.
func large(ctx context.Context, b *bench) {
	b.header("arrivals", "how", "flows", "packet-hops", "time, s", "processor, s", "processor ns a packet-hop",
		"critical path, s", "memory, GB", "bytes a flow: tables + cache")
	var stages [][]any
	for _, duration := range b.names([]string{"0.02s"}, []string{"1s", "5s"}) {
		for _, way := range b.ways("independent", "flow --passes 1", "flow") {
			lake := b.lake()
			e := b.run(ctx, lake, append([]string{"large", "--duration", duration}, estimator(way)...)...)
			var disk struct {
				Bytes float64
				Cache float64 `json:"cache_bytes"`
			}
			text, _ := b.parsimon(ctx, "du", "--lake", lake, "--format", "json")
			b.decode(text, &disk)
			var critical, peak float64
			for _, s := range e.Stages {
				critical, peak = critical+s.Critical, max(peak, s.Peak)
				stages = append(stages, []any{duration, way, s.Stage, decimal(s.Seconds), decimal(s.CPU), decimal(s.Critical)})
			}
			b.row(duration, way, si(e.Flows), si(e.Cases.PacketHops), decimal(e.Seconds), decimal(e.processor),
				decimal(1e9*e.processor/e.Cases.PacketHops), decimal(critical), fmt.Sprintf("%.2f", peak/1e9),
				fmt.Sprintf("%.0f + %.0f", disk.Bytes/e.Flows, disk.Cache/e.Flows))
		}
	}
	b.printf("\nBy stage.")
	b.header("arrivals", "how", "stage", "time, s", "processor, s", "critical path, s")
	for _, r := range stages {
		b.row(r...)
	}
}

// flowsPerSecond are those of scenario large.
const flowsPerSecond = 6_810_000

// sampledGrowth asks for p99 within 2% of workloads of scenario large with more and more flows, whose flows are in the
// lake before.
func sampledGrowth(ctx context.Context, b *bench) {
	b.header("flows", "generate: processor, s", "ask: time, s", "processor, s", "memory, GB", "windows", "share of flows",
		"p99", "stopped")
	for _, name := range b.names([]string{"3e6"}, []string{"1e7", "3.405e7", "1e8"}) {
		lake := b.lake()
		duration := strconv.FormatFloat(b.parse(name)/flowsPerSecond, 'f', 3, 64) + "s"
		flags := []string{"large", "--lake", lake, "--duration", duration}
		_, generate := b.parsimon(ctx, append([]string{"stage", "generate"}, flags...)...)
		peak, began := b.peak, time.Now()
		flags = append(flags, "--within", "2%", "--of", "p99", "--format", "json")
		text, ask := b.parsimon(ctx, append([]string{"run"}, flags...)...)
		took := time.Since(began).Seconds()
		var answer struct {
			Flows   float64
			Windows int
			Share   float64 `json:"sampled_share"`
			Stopped string
			Rows    []struct {
				Service, VNet              *string
				Bin                        string `json:"size_bin"`
				Quantile, Estimate, Lo, Hi float64
			} `json:"intervals"`
		}
		b.decode(text, &answer)
		p99 := "–"
		for _, r := range answer.Rows {
			if r.Service == nil && r.VNet == nil && r.Bin == "all" && r.Quantile == 0.99 {
				p99 = fmt.Sprintf("%.3f (%.3f to %.3f)", r.Estimate, r.Lo, r.Hi)
			}
		}
		b.row(si(answer.Flows), decimal(generate), decimal(took), decimal(ask), fmt.Sprintf("%.2f", max(peak, b.peak)/1e9),
			answer.Windows, fmt.Sprintf("%.3g%%", 100*answer.Share), p99, answer.Stopped)
	}
}

// whatIf compares a what-if with the same scenario estimated from nothing, in processor seconds, and requires equal
// rows. For estimator flow it also times a sweep, unless short.
func whatIf(ctx context.Context, b *bench) {
	const cable = "pod0-fabric0:plane0-spine0"
	b.header("estimator", "what", "processor, s", "run from nothing / this")
	for i, way := range b.ways("independent", "flow") {
		from := slices.Concat([]string{"small"}, estimator(way), b.shortened())
		lake, fresh := fmt.Sprintf("%s/lake-%d", b.tmp, i), fmt.Sprintf("%s/fresh-%d", b.tmp, i)
		base := b.run(ctx, lake, from...)
		other, second := b.whatIf(ctx, append([]string{base.Scenario, "--lake", lake, "--fail", cable}, estimator(way)...)...)
		nothing := b.run(ctx, fresh, append(from, "--fail", cable, "--cache", "off")...)
		if x, y := b.rowsOf(ctx, lake, other.Other), b.rowsOf(ctx, fresh, nothing); x != y || x.N == 0 {
			b.fail(fmt.Errorf("a what-if has other rows than a run from nothing: %v, %v", x, y))
		}
		line := func(what string, seconds, runs float64) {
			b.row(way, what, decimal(seconds), decimal(runs*nothing.processor/seconds))
		}
		line("first run of `small`", base.processor, 1)
		line("the same with a cable down, from nothing", nothing.processor, 1)
		line("the same as a what-if, equal rows", second, 1)
		if !b.short && strings.HasPrefix(way, "flow") {
			text, swept := b.parsimon(ctx, append([]string{"sweep", base.Scenario, "--lake", lake,
				"--fail", "each:" + ecmpTiers}, estimator(way)...)...)
			cables := b.number(text, `^(\d+) cables`)
			line(fmt.Sprintf("sweep of %.0f cables", cables), swept, cables)
		}
	}
}

// A whatIfAnswer is what parsimon what-if reports.
type whatIfAnswer struct {
	Other estimate // its scenario and variant
	Name  string   `json:"other_name"`
}

func (b *bench) whatIf(ctx context.Context, args ...string) (answer whatIfAnswer, processor float64) {
	text, processor := b.parsimon(ctx, append([]string{"what-if", "--format", "json"}, args...)...)
	b.decode(text, &answer)
	return answer, processor
}

// rows is the number of slowdowns of an estimate and a digest of them.
type rows struct {
	N      int64
	Digest string
}

func (b *bench) rowsOf(ctx context.Context, lake string, e estimate) rows {
	return queryRow[rows](ctx, b, lake, `
		SELECT count(*) AS n, sum(hash(flow_id, fct_ns, ideal_ns, hops))::VARCHAR AS digest
		FROM slowdowns_all WHERE `+e.where())
}
