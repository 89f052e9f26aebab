package main

import (
	"context"
	"fmt"
	"slices"
)

// warm compares warm what-ifs with cold ones of the same changes: processor time, and percentiles. The base is
// estimated with the passes that it asks for; its observations are in the lake from an earlier warm what-if. Neither
// uses the cache. The time of a cold one is that with the base's estimate in the lake, with as many passes.
func warm(ctx context.Context, b *bench) {
	scenario := b.names([]string{"small"}, []string{"small"})[0]
	b.header("change", "passes, cold", "processor, s, cold", "warm", "warm / cold", "p50 / p90 / p99 / p99.9, warm against cold",
		"largest p99 of a size bin over 1,000 flows")
	for i, change := range [][]string{
		{"--fail", "pod0-fabric0:plane0-spine2"}, {"--fail", "pod1-tor8:pod1-fabric1"}, {"--bandwidth", "fabric-spine=30G"},
	} {
		lake, cold := fmt.Sprintf("%s/warm-%d", b.tmp, i), fmt.Sprintf("%s/cold-%d", b.tmp, i)
		base := b.run(ctx, lake, append([]string{scenario}, b.shortened()...)...)
		b.run(ctx, cold, append([]string{scenario}, b.shortened()...)...)
		how := func(lake string, change ...string) []string {
			return append([]string{base.Scenario, "--lake", lake, "--cache", "off"}, change...)
		}
		b.warmAnswer(ctx, append(how(lake, "--fail", "pod0-fabric1:plane1-spine1"), "--warm")...)
		_, took := b.warmAnswer(ctx, append(how(lake, change...), "--warm")...)
		is, _ := b.warmAnswer(ctx, append(how(lake, change...), "--warm", "--by", "size_bin")...)
		was, _ := b.warmAnswer(ctx, how(cold, change...)...)
		b.parsimon(ctx, "rm", was.Other.Scenario, "--lake", cold) // the base has as many passes now
		_, nothing := b.warmAnswer(ctx, how(cold, change...)...)
		was, _ = b.warmAnswer(ctx, append(how(cold, change...), "--by", "size_bin")...)
		text, worst := "", 0.0
		for _, r := range was.Rows {
			at := slices.IndexFunc(is.Rows, func(x warmRow) bool {
				return slices.Equal(x.Group, r.Group) && x.Quantile == r.Quantile
			})
			off := is.Rows[at].Other/r.Other - 1
			if !slices.ContainsFunc(r.Group, func(g string) bool { return g != "all" }) {
				text += fmt.Sprintf(" / %+.1f%%", 100*off)
			} else if r.Quantile == 0.99 && r.Flows > 1000 && abs(off) > abs(worst) {
				worst = off
			}
		}
		b.row("`"+change[0]+" "+change[1]+"`", was.Other.Variant, decimal(nothing), decimal(took),
			fmt.Sprintf("%.2f", took/nothing), text[len(" / "):], fmt.Sprintf("%+.1f%%", 100*worst))
	}
}

// A warmAnswer is what parsimon what-if reports of percentiles.
type warmAnswer struct {
	Other estimate  // its scenario and variant
	Rows  []warmRow `json:"percentiles"`
}

type warmRow struct {
	Group    []string
	Flows    int64
	Quantile float64
	Other    float64
}

func (b *bench) warmAnswer(ctx context.Context, args ...string) (answer warmAnswer, processor float64) {
	text, processor := b.parsimon(ctx, append([]string{"what-if", "--format", "json"}, args...)...)
	b.decode(text, &answer)
	return answer, processor
}
