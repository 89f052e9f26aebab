package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// A predicted is the answer of run --dry-run.
type predicted struct {
	Hosts      int
	Flows      int64
	PacketHops float64 `json:"packet_hops"`
	Estimator  string
	Estimators []struct {
		Estimator  string
		CPUSeconds float64 `json:"cpu_seconds"`
		Seconds    float64
	}
}

// forecastCores is the number of cores of the forecasts and of the runs.
const forecastCores = 2

// A forecastRun is a run beside its prediction.
type forecastRun struct {
	predicted
	cpuSeconds, seconds float64 // predicted, of the estimator that the run chooses
	taken               float64 // processor seconds
	made                estimate
}

// error is the relative error of the predicted processor time.
func (f *forecastRun) error() float64 { return f.cpuSeconds/f.taken - 1 }

// measureForecast compares the time that run predicts with the time that the run then takes.
func measureForecast(ctx context.Context, b *bench) {
	b.printf("What `run --dry-run --cores 2` predicts for the estimator that the run chooses, and the run " +
		"itself: cache off, two workers, one run each. Elapsed time is as predicted only if no other program " +
		"uses the cores; processor time depends less on them. The error is that of the prediction: -50%% is " +
		"half of what the run took. [forecast-fit.md](forecast-fit.md) has the fit of the constants.\n")
	b.header("scenario", "hosts", "M packet-hops", "estimator", "processor, s: predicted", "taken", "error",
		"elapsed, s: predicted", "taken")
	errors := figures{}
	all := b.shippedForecasts(b.names([]string{"held-out/microbursts"}, forecastNames))
	if len(b.args) == 0 {
		all = append(all, b.madeForecasts()...)
	}
	for _, s := range all {
		f := b.forecastOf(ctx, s)
		if b.err != nil {
			return
		}
		errors.add(s.name, f.error())
		b.row(s.name, f.Hosts, decimal(f.PacketHops/1e6), f.made.Variant, decimal(f.cpuSeconds), decimal(f.taken),
			percent(f.error()), decimal(f.seconds), decimal(f.made.Seconds))
	}
	mean, worst, name := errors.magnitudes()
	b.printf("\nMean size of the error of processor time %s, largest %s (%s).", share(mean), share(worst), name)
}

// forecastOf predicts a run, and makes it.
func (b *bench) forecastOf(ctx context.Context, s source) (f forecastRun) {
	dry := []string{"run", "--dry-run", "--cores", strconv.Itoa(forecastCores)}
	dry = append(dry, "--lake", b.lake(), "--format", "json")
	b.decode(b.parsimon(ctx, append(dry, s.flags...)...), &f.predicted)
	how := []string{"--cache", "off", "--workers", strconv.Itoa(forecastCores)}
	f.made = b.run(ctx, b.lake(), append(how, s.flags...)...)
	f.taken = b.processor.Seconds()
	for _, c := range f.Estimators {
		if c.Estimator == f.Estimator {
			f.cpuSeconds = c.CPUSeconds
			f.seconds = c.Seconds
			return f
		}
	}
	b.fail(fmt.Errorf("%s: the dry run does not predict estimator %q", s.name, f.Estimator))
	return f
}

// forecastNames are shipped scenarios of many kinds.
var forecastNames = []string{
	"small", "wan", "two-jobs", "fabrics", "accuracy/incast", "constants/jumbo-9000", "held-out/100g",
	"held-out/dumbbell", "held-out/few-senders", "held-out/long-cables", "held-out/microbursts",
	"held-out/mixed-hosts", "held-out/one-size", "held-out/one-switch", "held-out/random-graph",
}

// shippedForecasts returns shipped scenarios.
func (b *bench) shippedForecasts(names []string) (all []source) {
	for _, name := range names {
		all = append(all, source{name: name, flags: []string{name}})
	}
	return all
}

// madeForecasts returns constructed scenarios that are hard to predict: tiny networks, idle ones, long
// cables, and bursts of flows that start together.
func (b *bench) madeForecasts() (all []source) {
	services := "{%s, services: [{name: a, sizes: webserver, sigma: 1}]}"
	for _, m := range []madeScenario{
		{"pair", 2, "10Gbps", "1us", fmt.Sprintf(services, "max_load: 30%, flows_count: 50000")},
		{"four-idle", 4, "10Gbps", "1us", fmt.Sprintf(services, "max_load: 0.1%, flows_count: 50000")},
		{"far", 16, "10Gbps", "2ms", fmt.Sprintf(services, "max_load: 50%, flows_count: 20000")},
		{"bursts-of-3000", 96, "25Gbps", "1us", b.burstsFile("bursts-of-3000.csv", 10, 3_000)},
		{"bursts-of-20000", 96, "25Gbps", "1us", b.burstsFile("bursts-of-20000.csv", 2, 20_000)},
	} {
		all = append(all, source{name: m.name, flags: []string{b.file(m.name+".yaml", m.yaml())}})
	}
	return all
}

// A madeScenario is a scenario of hosts on one switch.
type madeScenario struct {
	name             string
	hosts            int
	bandwidth, delay string
	workload         string
}

// yaml returns the scenario file.
func (m madeScenario) yaml() string {
	var hosts, cables []string
	for n := range m.hosts {
		hosts = append(hosts, fmt.Sprintf("h%d", n))
		cables = append(cables, fmt.Sprintf(`"h%d:s"`, n))
	}
	return fmt.Sprintf("name: %s\nseed: 1\ntopology: {graph: {bandwidth: %s, delay: %s, hosts: [%s], "+
		"switches: [s], cables: [%s]}}\nworkload: %s\n", m.name, m.bandwidth, m.delay, strings.Join(hosts, ", "),
		strings.Join(cables, ", "), m.workload)
}

// burstsFile writes bursts of flows of 100 KB between random hosts of 96, one each second. It returns the
// workload of a scenario file.
func (b *bench) burstsFile(name string, bursts, flows int) string {
	const hosts = 96
	random := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	text.WriteString("flow_id,src,dst,size_bytes,start_ns\n")
	for n := range bursts * flows {
		src := random.IntN(hosts)
		dst := (src + 1 + random.IntN(hosts-1)) % hosts
		fmt.Fprintf(&text, "%d,%d,%d,100000,%d\n", n, src, dst, int64(n/flows)*1e9)
	}
	return "{flows: " + b.file(name, text.String()) + "}"
}
