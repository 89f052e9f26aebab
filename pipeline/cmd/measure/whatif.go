package main

import (
	"context"
	"fmt"
	"strings"
)

// ecmpTiers are the tiers whose cables have alternatives.
const ecmpTiers = "tor-fabric,fabric-spine"

// whatIf compares a what-if with the same scenario estimated from nothing, in processor seconds, and requires equal
// rows. For estimator flow it also times a sweep, unless short.
func whatIf(ctx context.Context, b *bench) {
	const cable = "pod0-fabric0:plane0-spine0"
	scenario := b.names([]string{"small"}, []string{"small"})[0]
	b.header("estimator", "what", "processor, s", "run from nothing / this")
	for i, way := range b.ways("independent", "flow") {
		source := append(append([]string{scenario}, estimator(way)...), b.shortened()...)
		lake, fresh := fmt.Sprintf("%s/lake-%d", b.tmp, i), fmt.Sprintf("%s/fresh-%d", b.tmp, i)
		base := b.run(ctx, lake, source...)
		changed := append([]string{base.Scenario, "--lake", lake, "--fail", cable}, estimator(way)...)
		other, second := b.whatIf(ctx, changed...)
		nothing := b.run(ctx, fresh, append(source, "--fail", cable, "--cache", "off")...)
		if x, y := b.rowsOf(ctx, lake, other.Other), b.rowsOf(ctx, fresh, nothing); x != y || x.N == 0 {
			b.fail(fmt.Errorf("a what-if has other rows than a run from nothing: %v, %v", x, y))
		}
		line := func(what string, seconds, runs float64) {
			b.row(way, what, decimal(seconds), decimal(runs*nothing.processor/seconds))
		}
		line("first run of `"+scenario+"`", base.processor, 1)
		line("the same with a cable down, from nothing", nothing.processor, 1)
		line("the same as a what-if, equal rows", second, 1)
		if !strings.HasPrefix(way, "flow") {
			continue
		}
		if !b.short {
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

// shortened are flags of a small workload, with --short.
func (b *bench) shortened() []string {
	if b.short {
		return []string{"--duration", "10ms"}
	}
	return nil
}

// rows is the number of slowdowns of an estimate and a digest of them.
type rows struct {
	N      int64
	Digest string
}

func (b *bench) rowsOf(ctx context.Context, lake string, e estimate) rows {
	return queryRow[rows](ctx, b, lake, fmt.Sprintf(`
		SELECT count(*) AS n, sum(hash(flow_id, fct_ns, ideal_ns, hops))::VARCHAR AS digest
		FROM slowdowns_all WHERE scenario = '%s' AND variant = '%s'`, e.Scenario, e.Variant))
}

// failures repeats the paper's failure experiment (appendix "Link failures"): errors of the estimate with one random
// ECMP cable down, against the simulation of the whole network.
func failures(ctx context.Context, b *bench) {
	scenario := b.names([]string{"failures"}, []string{"failures"})[0]
	lake, how := b.lake(), estimator(b.ways("flow")[0])
	b.header("draw", "cable down", "p50 / p90 / p99 / p99.9")
	base := b.run(ctx, lake, append(append([]string{scenario}, how...), b.shortened()...)...)
	b.row("", "none", b.validate(ctx, lake, base, how, "exact")["all"].errors)
	var errors tally
	for draw := 1; draw <= b.count(10); draw++ {
		w, _ := b.whatIf(ctx, append([]string{base.Scenario, "--lake", lake, "--fail", "random:1",
			"--tier", ecmpTiers, "--draw", fmt.Sprint(draw)}, how...)...)
		p := b.validate(ctx, lake, w.Other, how, "exact")["all"].errors
		cable := strings.TrimSuffix(w.Name[strings.LastIndex(w.Name, ", ")+1:], " down")
		b.row(draw, strings.TrimSpace(cable), p)
		errors.add("", abs(p.p99()))
	}
	median, least, greatest := errors.spread()
	b.printf("\n|p99 error| with a cable down: %.1f%% to %.1f%%, median %.1f%% (the paper: 11%% to 14%%, median 12%%).",
		100*least, 100*greatest, 100*median)
}
