package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lengthScenario is two racks of eight hosts with bursty arrivals at half of the capacity of the busiest
// link. Its arguments are the seed, the length and the flow sizes.
const lengthScenario = `name: length
seed: %d
topology:
  clos: {pods: 1, racks_per_pod: 2, hosts_per_rack: 8, planes: 2, spines_per_plane: 1,
    host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
workload:
  max_load: 50%%
  duration: %dms
  services:
    - {name: web, sizes: %s, sigma: 2}
`

// lengthText introduces the page.
const lengthText = `Two racks of eight hosts, flow sizes of WebServer or CacheFollower, bursty arrivals
(σ = 2), busiest link 50%%; %d workloads of each length. The error is that of estimator independent relative to
exact on the same flows: the mean over the workloads, and at p99 also the mean of the absolute errors.

Short workloads have fewer flows on each link. A bucket needs 100 flows, so it then has flows of many sizes,
and a large flow draws the delay per packet of a small one. The column without draws has the error that
remains at p99 if each flow keeps the delays that were simulated for it. Flows of CacheFollower are seven
times as large as those of WebServer, so they are fewer.

The share that is due to shortness is the part of the error that the longest workload does not have. If it is
negative, the error grows with the length. The last columns have p99 of the truth: its mean, and its standard
deviation between workloads as a fraction of the mean.`

// lengthSizes are the distributions of flow sizes.
var lengthSizes = []string{"webserver", "cachefollower"}

// lengthSeeds is the number of workloads of each length.
const lengthSeeds = 5

// A lengthRun is the result of one workload.
type lengthRun struct {
	Method string      `json:"method"`
	Flows  int64       `json:"flows"`
	Errors percentiles `json:"errors"` // of independent
	// Undrawn has the errors if flows keep the delays that were simulated for them (bench.undrawn).
	Undrawn percentiles `json:"undrawn"`
	Truth   percentiles `json:"truth"`
}

// A lengthTally has the results of several workloads of one length and distribution of sizes.
type lengthTally struct {
	sizes        string
	milliseconds string
	runs         [lengthSeeds]lengthRun
}

// errors returns the errors of independent at a percentile, and truths the true slowdowns.
func (l *lengthTally) errors(quantile int) (values []float64) {
	for _, r := range l.runs {
		values = append(values, r.Errors[quantile])
	}
	return values
}

func (l *lengthTally) truths(quantile int) (values []float64) {
	for _, r := range l.runs {
		values = append(values, r.Truth[quantile])
	}
	return values
}

// magnitude returns the mean of the absolute errors at a percentile.
func (l *lengthTally) magnitude(quantile int) (sum float64) {
	for _, e := range l.errors(quantile) {
		sum += abs(e) / lengthSeeds
	}
	return sum
}

// measureLengths estimates workloads of several lengths by independent, and compares each with exact on the
// same flows. The error that the longest workload has is not due to shortness. Lengths that are not finished
// in time are named.
func measureLengths(ctx context.Context, b *bench) {
	folder := b.recordsOf("lengths")
	_, method := b.version(ctx)
	b.printf(lengthText, lengthSeeds)
	milliseconds := []string{"100", "300", "1000", "3000", "10000"}
	for _, sizes := range lengthSizes {
		var all []lengthTally
		var late []string
		for _, text := range b.names(milliseconds[:2], milliseconds) {
			l, err := b.measureLength(ctx, folder, method, lengthTally{sizes: sizes, milliseconds: text})
			if err != nil {
				late = append(late, seconds(b.parse(text)))
				continue
			}
			all = append(all, l)
		}
		b.printf("\n## %s", sizes)
		if len(late) > 0 {
			b.printf("\nNot measured in the time there was: %s s. `make lengths ARGS=--write` continues.",
				strings.Join(late, " s, "))
		}
		if b.err == nil && len(all) > 0 {
			b.lengthTable(all, late)
		}
	}
}

func seconds(milliseconds float64) string { return strconv.FormatFloat(milliseconds/1000, 'g', -1, 64) }

// lengthTable prints the table. While lengths are missing, the share due to shortness is not known.
func (b *bench) lengthTable(all []lengthTally, late []string) {
	const p99 = 2
	b.header("length, s", "flows", "error at p50 / p90 / p99 / p99.9", "size of the error at p99",
		"due to shortness", "p99 without draws", "true p99", "deviation")
	rest := all[len(all)-1].magnitude(p99)
	for _, l := range all {
		var errors percentiles
		for q := range errors {
			errors[q] = mean(l.errors(q))
		}
		var flows int64
		var undrawn float64
		for _, r := range l.runs {
			flows += r.Flows / lengthSeeds
			undrawn += r.Undrawn.p99() / lengthSeeds
		}
		shortness := "–"
		if len(late) == 0 {
			shortness = share(1 - rest/l.magnitude(p99))
		}
		b.row(seconds(b.parse(l.milliseconds)), flows, errors, share(l.magnitude(p99)), shortness,
			percent(undrawn), decimal(mean(l.truths(p99))), share(relativeDeviation(l.truths(p99))))
	}
}

// measureLength adds the results of the workloads of one length. The error errLate means that some are
// missing.
func (b *bench) measureLength(
	ctx context.Context, folder, method string, l lengthTally,
) (lengthTally, error) {
	for n := range lengthSeeds {
		stored := filepath.Join(folder, fmt.Sprintf("%s-%sms-%d.json", l.sizes, l.milliseconds, n+1))
		r := &l.runs[n]
		if b.readStored(stored, r) && r.Method == method {
			continue
		}
		if b.late() {
			return l, errLate
		}
		*r = b.measureWorkload(ctx, n+1, l)
		r.Method = method
		b.store(stored, r)
		if b.err != nil {
			return l, b.err
		}
		fmt.Fprintf(os.Stderr, "lengths: %s, %s s, workload %d of %d\n", l.sizes,
			seconds(b.parse(l.milliseconds)), n+1, lengthSeeds)
	}
	return l, nil
}

// measureWorkload estimates a workload by exact and by independent.
func (b *bench) measureWorkload(ctx context.Context, seed int, l lengthTally) (r lengthRun) {
	file := b.file("length.yaml", fmt.Sprintf(lengthScenario, seed, int64(b.parse(l.milliseconds)), l.sizes))
	lake := b.lake()
	truth := b.run(ctx, lake, file, "--estimator", "exact")
	e := b.run(ctx, lake, file, "--estimator", "independent")
	if b.err != nil {
		return r
	}
	r.Flows = e.Flows
	r.Errors = b.validate(ctx, lake, e, "exact")["all"].errors
	undrawn := b.undrawn(ctx, lake, e)
	for _, p := range truth.Percentiles {
		if p.SizeBin == "all" {
			r.Truth = p.percentiles()
			r.Undrawn = relative(undrawn, r.Truth)
		}
	}
	return r
}
