package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// kernel compares the link kernel with the reference link simulator on the same link cases.
func (h *headliner) kernel(ctx context.Context) {
	if !h.needsShared() {
		return
	}
	reference := h.sharedPath("tools", "minim-bench")
	cases := h.sharedPath("reference", "links")
	const pattern = `ns_per_packet_hop ([\d.]+)`
	h.rounds(5, 11, func() {
		h.add("reference-ns", h.number(h.execute(ctx, nil, reference, cases), pattern))
		h.add("ours-ns", h.number(h.parsimon(ctx, "bench-kernel", "--cases", cases), pattern))
	})
}

// estimates compares whole estimates with the reference's on the same flows, with two threads. The time of
// reading the flow file is excluded on both sides.
func (h *headliner) estimates(ctx context.Context) {
	if !h.needsShared() {
		return
	}
	s := h.sources([]string{"47"})[0]
	input := h.flowsOf(ctx, s, "")
	h.rounds(3, 7, func() {
		text := h.execute(ctx, []string{"UNPOLAR=1", "RAYON_NUM_THREADS=2"}, h.sharedPath("tools", "ref-run"),
			s.flags[1], input, filepath.Join(h.tmp, "out.csv")) // the flag is the topology
		h.add("reference-s", h.number(text, `total_without_read ([\d.]+)`))
		for _, way := range []string{"independent", "flow"} {
			e := h.run(ctx, h.lake(), append(slices.Clone(s.flags), "--workers", "2", "--estimator", way)...)
			for _, first := range e.Stages[:min(1, len(e.Stages))] { // it reads the flow file
				e.Seconds -= first.Seconds
			}
			h.add(way+"-s", e.Seconds)
		}
	})
}

// flowsOf writes flows of a scenario as the reference and ns-3 read them, and returns the file. The condition
// is SQL.
func (h *headliner) flowsOf(ctx context.Context, s source, condition string) string {
	lake := h.lake()
	h.run(ctx, lake, append(slices.Clone(s.flags), "--estimator", "independent")...)
	list := h.parsimon(ctx, "query", "--lake", lake, "--format", "json", "--sql",
		"SELECT flow_id AS id, src, dst, size_bytes AS size, start_ns AS start FROM flows "+condition)
	return h.file("flows.json", list)
}

// ns3 compares stage exact, with one worker, with the paper's ns-3 on flows of scenario 95. The short form
// has the first tenth of them.
func (h *headliner) ns3(ctx context.Context) {
	if !h.needsShared() {
		return
	}
	s := h.sources([]string{"95"})[0]
	condition := "WHERE size_bytes > 0"
	h.texts["flows"] = "scenario 95"
	if h.short {
		condition += " QUALIFY row_number() OVER (ORDER BY start_ns) <= 4000"
		h.texts["flows"] = "the first 4,000 flows of scenario 95"
	}
	input := h.flowsOf(ctx, s, condition)
	var flows []struct{ ID, Src, Dst, Size, Start int64 }
	text, err := os.ReadFile(input)
	h.fail(err)
	h.decode(string(text), &flows)
	var list strings.Builder
	list.WriteString("flow_id,src,dst,size_bytes,start_ns\n")
	for _, f := range flows {
		fmt.Fprintf(&list, "%d,%d,%d,%d,%d\n", f.ID, f.Src, f.Dst, f.Size, f.Start)
	}
	file := h.file("ns3.csv", list.String())
	h.rounds(3, 3, func() {
		e := h.run(ctx, h.lake(), "--topology", s.flags[1], "--flows", file, "--window", "18KB", "--estimator",
			"exact", "--workers", "1")
		if h.err != nil {
			return
		}
		h.add("exact-ns", 1e9*e.of("exact").CPUSeconds/float64(e.WholeHops))
		h.execute(ctx, nil, "python3", h.sharedPath("tools", "ns3.py"), h.tmp, s.flags[1], "dctcp")
		h.add("ns3-ns", float64(h.processor.Nanoseconds())/float64(e.WholeHops))
		for _, name := range []string{"flows.txt", "fct_dctcp.txt"} {
			h.fail(os.Remove(filepath.Join(h.tmp, name)))
		}
	})
}

// of returns the cost of some stages of a run, in all passes.
func (e *estimate) of(stages ...string) (sum stageCost) {
	for _, s := range e.Stages {
		if slices.Contains(stages, s.Stage) {
			sum.Seconds += s.Seconds
			sum.CPUSeconds += s.CPUSeconds
		}
	}
	return sum
}

// benchmarks builds the tests of a package.
func (h *headliner) benchmarks(ctx context.Context, folder string) (binary string) {
	binary = filepath.Join(h.tmp, filepath.Base(folder)+".test")
	h.execute(ctx, nil, "go", "test", "-c", "-o", binary, "./"+folder)
	return binary
}

// A benchmarked has the metrics of benchmarks, by name and unit.
type benchmarked map[string]map[string]float64

// benchmark runs benchmarks of a test binary.
func (h *headliner) benchmark(
	ctx context.Context, env []string, binary, pattern, times string,
) (all benchmarked, output string) {
	output = h.execute(ctx, env, binary, "-test.run", "^$", "-test.bench", pattern, "-test.benchtime", times,
		"-test.timeout", "24h")
	all = benchmarked{}
	line := regexp.MustCompile(`(?m)^(Benchmark\S+?)(?:-\d+)?\s+\d+\s+(.+)$`)
	for _, found := range line.FindAllStringSubmatch(output, -1) {
		metrics := map[string]float64{}
		fields := strings.Fields(found[2])
		for i := 0; i+1 < len(fields); i += 2 {
			metrics[fields[i+1]] = h.parse(fields[i])
		}
		all[found[1]] = metrics
	}
	return all, output
}

// metric adds a metric of a benchmark as a figure.
func (h *headliner) metric(of benchmarked, benchmark, unit, name string) {
	value, ok := of[benchmark][unit]
	if !ok {
		h.fail(fmt.Errorf("%s reports no %s", benchmark, unit))
	}
	h.add(name, value)
}

// hosts measures the whole network with one worker, and how much two workers and two separate networks gain.
func (h *headliner) hosts(ctx context.Context) {
	binary := h.benchmarks(ctx, "simkernel/network")
	h.rounds(5, 11, func() {
		one, _ := h.benchmark(ctx, nil, binary, "BenchmarkNetwork/hosts/buffer=0/workers=1", "1x")
		both, _ := h.benchmark(ctx, nil, binary, "BenchmarkWorkers", "1x")
		for _, hosts := range []string{"256", "2048", "6144"} {
			h.metric(one, "BenchmarkNetwork/hosts="+hosts+"/buffer=0/workers=1", "cpu-ns/hop", "ns-"+hosts)
			h.metric(both, "BenchmarkWorkers/hosts="+hosts, "two-workers", "two-"+hosts)
			h.metric(both, "BenchmarkWorkers/hosts="+hosts, "two-networks", "apart-"+hosts)
		}
	})
}

// transports measures the link kernel with each transport.
func (h *headliner) transports(ctx context.Context) {
	binary := h.benchmarks(ctx, "simkernel/linkcase")
	h.rounds(5, 11, func() {
		of, _ := h.benchmark(ctx, nil, binary, "BenchmarkTransports", "10x")
		for _, kind := range []string{"dctcp", "timely", "dcqcn", "swift", "hpcc"} {
			h.metric(of, "BenchmarkTransports/"+kind, "ns/packet-hop", kind+"-ns")
		}
	})
}

// parts measures the parts of a switch.
func (h *headliner) parts(ctx context.Context) {
	binary := h.benchmarks(ctx, "simkernel/network")
	h.rounds(3, 7, func() {
		_, table := h.benchmark(ctx, nil, binary, "BenchmarkParts", "1x")
		for part, name := range map[string]string{"none": "none", "buffers": "buffers", "buffers, PFC": "pfc",
			"2 classes": "classes-2", "8 classes": "classes-8", "cubic": "cubic"} {
			h.add(name+"-ns", h.number(table, `^\| `+part+` \| (\d+) \|`))
		}
	})
}

// onePacket is a scenario with one flow of one packet.
const onePacket = `topology: {name: small-2to1}
workload:
  max_load: 1%
  flows_count: 1
  services: [{name: main, sizes: 1KB}]
`

// start measures a run of one packet in a new lake, and a question about it.
func (h *headliner) start(ctx context.Context) {
	service := h.file("one.yaml", onePacket)
	flows := h.file("one.csv", "src,dst,size_bytes,start_ns\n0,200,1000,0\n")
	h.rounds(7, 21, func() {
		h.alternately(func(program, infix string) {
			lake := h.lake()
			took := h.costOf(ctx, program, "run", "--topology", "small-2to1", "--flows", flows, "--lake", lake)
			h.add("file-"+infix+"s", took.processor.Seconds())
			lake = h.lake()
			took = h.costOf(ctx, program, "run", service, "--lake", lake)
			h.add("run-"+infix+"s", took.processor.Seconds())
			took = h.costOf(ctx, program, "query", "slowdown_by_size", "--lake", lake, "--param", "scenario=one")
			h.add("question-"+infix+"s", took.processor.Seconds())
		})
	})
}

// logs writes generated logs of some formats, with the benchmark of package workloads. It returns the test
// binary and the environment that a later call needs.
func (h *headliner) logs(ctx context.Context, records int) (binary string, env []string) {
	folder := filepath.Join(h.tmp, "logs")
	h.fail(os.RemoveAll(folder))
	h.fail(os.Mkdir(folder, 0o755))
	return h.benchmarks(ctx, "pipeline/workloads"), []string{"PARSIMON_LOGS=" + folder,
		fmt.Sprintf("PARSIMON_RECORDS=%d", records)}
}

// plain measures DuckDB's plain query over the log of a format, which it generates first if there is none.
func (h *headliner) plain(
	ctx context.Context, binary string, env []string, format string,
) map[string]float64 {
	of, _ := h.benchmark(ctx, env, binary, "BenchmarkIngest/^"+format+"$/^duckdb$", "1x")
	return of["BenchmarkIngest/"+format+"/duckdb"]
}

// ingestLog ingests the log of a format into a new lake.
func (h *headliner) ingestLog(ctx context.Context, program, format string) cost {
	folder := filepath.Join(h.tmp, "logs")
	return h.costOf(ctx, program, "ingest", filepath.Join(folder, format+".log"), "--format", format, "--hosts",
		filepath.Join(folder, "hosts.csv"), "--topology", "small-2to1", "--workload", "bench", "--lake", h.lake())
}

const (
	perRecord = "cpu-µs/record"
	megabyte  = 1e6
)

// ingest compares the ingest of VPC records with DuckDB's plain query.
func (h *headliner) ingest(ctx context.Context) {
	const records = 2_000_000
	binary, env := h.logs(ctx, records)
	h.rounds(5, 7, func() {
		plain := h.plain(ctx, binary, env, "vpc")
		h.add("duckdb-us", plain[perRecord])
		h.add("duckdb-krecords", plain["records/s"]/1000)
		h.add("duckdb-mb", plain["peak-MB"])
		h.alternately(func(program, infix string) {
			took := h.ingestLog(ctx, program, "vpc")
			h.add(infix+"us", took.processor.Seconds()*1e6/records)
			h.add(infix+"mb", float64(took.peakBytes)/megabyte)
			if infix == "" {
				h.add("krecords", records/1000/took.elapsed.Seconds())
			}
		})
	})
}

// formats compares the ingest of other formats with DuckDB's plain query.
func (h *headliner) formats(ctx context.Context) {
	const records = 500_000
	binary, env := h.logs(ctx, records)
	h.rounds(3, 7, func() {
		for _, format := range []string{"nfdump", "ipfix", "goflow2", "csv"} {
			h.add(format+"-duckdb-us", h.plain(ctx, binary, env, format)[perRecord])
			h.alternately(func(program, infix string) {
				took := h.ingestLog(ctx, program, format)
				h.add(format+"-"+infix+"us", took.processor.Seconds()*1e6/records)
			})
		}
	})
}

// longIngest returns a function that measures the ingest of a number of VPC records.
func longIngest(records int) func(h *headliner, ctx context.Context) {
	return func(h *headliner, ctx context.Context) {
		binary, env := h.logs(ctx, records)
		h.plain(ctx, binary, env, "vpc") // it generates the log
		took := h.ingestLog(ctx, h.program, "vpc")
		h.add("us", took.processor.Seconds()*1e6/float64(records))
		h.add("krecords", float64(records)/1000/took.elapsed.Seconds())
		h.add("mb", float64(took.peakBytes)/megabyte)
		h.fail(os.RemoveAll(filepath.Join(h.tmp, "logs")))
	}
}

// runLarge runs 6,144 hosts with a program, without the cache, and with two workers unless flags state
// another number.
func (h *headliner) runLarge(ctx context.Context, program, duration string, flags ...string) (e estimate) {
	args := []string{"run", "large", "--duration", duration, "--workers", "2", "--cache", "off", "--format",
		"json", "--quiet", "--lake", h.lake()}
	h.decode(h.execute(ctx, nil, program, append(args, flags...)...), &e)
	return e
}

// large measures 0.3 s of 6,144 hosts.
func (h *headliner) large(ctx context.Context) {
	const duration = "300ms"
	all := []string{"route", "simulate", "bucket", "sample", "intervals"} // older programs have bucket
	h.rounds(3, 5, func() {
		h.alternately(func(program, infix string) {
			e := h.runLarge(ctx, program, duration, "--estimator", "independent")
			took := h.cost
			hops := h.hopsOf(ctx, e)
			if h.err != nil {
				return
			}
			h.add("independent-"+infix+"cpu-s", took.processor.Seconds())
			cases := float64(e.LinkCases.KernelNS) / 1e9
			h.add("stages-"+infix+"us", 1e6*(e.of(all...).CPUSeconds-cases)/hops)
			if infix == "" {
				h.addIndependent(e, took)
			}
		})
		e := h.runLarge(ctx, h.program, duration, "--estimator", "independent", "--cluster")
		h.add("clustered-cpu-s", h.processor.Seconds())
		h.add("clustered-cases", float64(e.LinkCases.Cases))
		h.alternately(func(program, infix string) {
			e := h.runLarge(ctx, program, duration, "--estimator", "flow")
			h.add("flow-"+infix+"cpu-s", h.processor.Seconds())
			if infix == "" && h.err == nil {
				h.add("flow-s", e.Seconds)
				h.add("flow-ns", float64(h.processor.Nanoseconds())/float64(e.LinkCases.PacketHops))
				h.add("flow-mb", float64(h.peakBytes)/megabyte)
				h.add("flow-bytes", float64(h.bytesOf(filepath.Join(h.tmp, "lake")))/float64(e.Flows))
			}
		})
	})
}

// hopsOf returns the number of hops of all flows of the estimate in the lake.
func (h *headliner) hopsOf(ctx context.Context, e estimate) float64 {
	for _, row := range query[struct{ N int64 }](ctx, h.bench, filepath.Join(h.tmp, "lake"),
		"SELECT sum(hops) AS n FROM slowdowns WHERE scenario = '"+e.Scenario+"'") {
		return float64(row.N)
	}
	return math.NaN()
}

// addIndependent adds the figures of a run of 6,144 hosts by independent.
func (h *headliner) addIndependent(e estimate, took cost) {
	hops := float64(e.LinkCases.PacketHops)
	h.texts["flows"] = headlineCount(e.Flows)
	h.texts["packet-hops"] = headlineCount(e.LinkCases.PacketHops)
	h.add("independent-cases", float64(e.LinkCases.Cases))
	h.add("independent-s", e.Seconds)
	h.add("independent-ns", float64(took.processor.Nanoseconds())/hops)
	h.add("independent-mb", float64(took.peakBytes)/megabyte)
	h.add("independent-bytes", float64(h.bytesOf(filepath.Join(h.tmp, "lake")))/float64(e.Flows))
	h.add("simulate-ns", 1e9*e.of("simulate").CPUSeconds/hops)
	h.add("kernel-ns", float64(e.LinkCases.KernelNS)/hops)
	for _, stage := range []string{"route", "sample", "intervals"} {
		h.add(stage+"-s", e.of(stage).CPUSeconds)
	}
}

// headlineCount prints a large number.
func headlineCount(n int64) string {
	if n >= 1_000_000_000 {
		return fmt.Sprintf("%.2f G", float64(n)/1e9)
	}
	return fmt.Sprintf("%.2f M", float64(n)/1e6)
}

// longRun returns a function that measures 5 s of 6,144 hosts by an estimator.
func longRun(estimator string) func(h *headliner, ctx context.Context) {
	return func(h *headliner, ctx context.Context) {
		h.alternately(func(program, infix string) {
			e := h.runLarge(ctx, program, "5s", "--estimator", estimator)
			h.add(infix+"s", e.Seconds)
			h.add(infix+"cpu-s", h.processor.Seconds())
			if infix == "" {
				h.add("mb", float64(h.peakBytes)/megabyte)
			}
		})
	}
}

// largeExact measures stage exact on 6,144 hosts.
func (h *headliner) largeExact(ctx context.Context) {
	arrivals := "1s"
	if h.short {
		arrivals = "30ms"
	}
	h.texts["arrivals"] = strings.Replace(strings.Replace(arrivals, "ms", " ms", 1), "1s", "1 s", 1)
	h.rounds(3, 3, func() {
		for i, name := range []string{"one", "two"} {
			workers := strconv.Itoa(i + 1)
			e := h.runLarge(ctx, h.program, arrivals, "--estimator", "exact", "--workers", workers)
			if h.err != nil {
				return
			}
			h.add(name+"-ns", 1e9*e.of("exact").Seconds/float64(e.WholeHops))
			if name == "two" {
				h.add("two-cpu-ns", 1e9*e.of("exact").CPUSeconds/float64(e.WholeHops))
				h.add("mb", float64(h.peakBytes)/megabyte)
			}
		}
		if h.before != "" {
			e := h.runLarge(ctx, h.before, arrivals, "--estimator", "exact", "--workers", "1")
			h.add("one-before-ns", 1e9*e.of("exact").Seconds/float64(e.WholeHops))
		}
	})
}

// sweep measures sweeps over cables of small: all 96 by exact with one worker and with two, and the 32
// between fabric and spine switches by independent.
func (h *headliner) sweep(ctx context.Context) {
	var length []string
	h.texts["base"] = "`small`"
	if h.short {
		length = []string{"--duration", "5ms"}
		h.texts["base"] = "5 ms of `small`"
	}
	h.rounds(2, 3, func() {
		all := cableSweep{program: h.program, estimator: "exact", tiers: "tor-fabric,fabric-spine",
			workers: "1", flags: length}
		h.add("one-s", h.costOfSweep(ctx, all).elapsed.Seconds())
		all.workers = "2"
		h.add("two-s", h.costOfSweep(ctx, all).elapsed.Seconds())
		if h.before != "" {
			all.program = h.before
			h.add("before-s", h.costOfSweep(ctx, all).elapsed.Seconds())
		}
		took := h.costOfSweep(ctx, cableSweep{program: h.program, estimator: "independent", tiers: "fabric-spine",
			workers: "2", flags: []string{"--duration", "5ms"}})
		h.add("cable-cpu-s", took.processor.Seconds()/32)
	})
}

// A cableSweep is a sweep over the cables of some tiers of small. The flags are those of the run before it.
type cableSweep struct {
	program, estimator, tiers, workers string
	flags                              []string
}

// costOfSweep runs small and then a sweep, of which it returns the cost.
func (h *headliner) costOfSweep(ctx context.Context, s cableSweep) cost {
	lake := h.lake()
	var base estimate
	args := []string{"run", "small", "--lake", lake, "--estimator", s.estimator, "--format", "json", "--quiet"}
	h.decode(h.execute(ctx, nil, s.program, append(args, s.flags...)...), &base)
	return h.costOf(ctx, s.program, "sweep", base.Scenario, "--fail", "each:"+s.tiers, "--estimator",
		s.estimator, "--lake", lake, "--workers", s.workers)
}

// whatIf measures a failed cable of small, as a what-if and as a run from nothing.
func (h *headliner) whatIf(ctx context.Context) {
	const cable = "pod1-tor8:pod1-fabric1"
	h.rounds(3, 7, func() {
		for _, way := range []string{"independent", "flow"} {
			took := h.costOf(ctx, h.program, "run", "small", "--fail", cable, "--estimator", way, "--lake", h.lake())
			h.add(way+"-run-s", took.processor.Seconds())
			lake := h.lake()
			h.costOf(ctx, h.program, "run", "small", "--estimator", way, "--lake", lake)
			took = h.costOf(ctx, h.program, "what-if", "small", "--fail", cable, "--estimator", way, "--lake", lake)
			h.add(way+"-s", took.processor.Seconds())
		}
	})
}

// forecast compares predicted processor times with those of runs.
func (h *headliner) forecast(ctx context.Context) {
	within := 0
	errors := figures{}
	for _, s := range append(h.shippedForecasts(forecastNames), h.madeForecasts()...) {
		f := h.forecastOf(ctx, s)
		if h.err != nil {
			return
		}
		errors.add(s.name, f.error())
		h.add("error-percent", 100*abs(f.error()))
		if abs(f.error()) <= 0.5 {
			within++
		}
	}
	h.texts["within-half"] = strconv.Itoa(within)
	_, worst, name := errors.magnitudes()
	h.texts["worst"] = fmt.Sprintf("%s (%s)", share(worst), name)
}

// headlineQuestions are questions that an estimate of a drawn workload can answer.
var headlineQuestions = []string{"headline", "slowdown_by_size", "slowdown_by_service",
	"percentiles_by_group", "slowdown_cdf", "slowdown_vs_size_by_group", "hottest_links", "load_top10",
	"p99_links", "tail_by_tier", "slowest_flows", "slowdown_and_load_over_time"}

// questions measures questions about 0.3 s of 6,144 hosts.
func (h *headliner) questions(ctx context.Context) {
	e := h.runLarge(ctx, h.program, "300ms", "--estimator", "independent")
	h.texts["flows"] = headlineCount(e.Flows)
	for _, name := range headlineQuestions {
		took := h.costOf(ctx, h.program, "query", name, "--lake", filepath.Join(h.tmp, "lake"), "--param",
			"scenario="+e.Scenario, "--format", "csv")
		h.add("cpu-s", took.processor.Seconds())
	}
}

// tour keeps the lines of make run that the README shows.
func (h *headliner) tour(ctx context.Context) {
	output := h.parsimon(ctx, "tour", "small", "--lake", h.lake())
	shown := regexp.MustCompile(`^estimator | all `)
	var lines []string
	for _, line := range strings.Split(output, "\n") {
		if shown.MatchString(line) {
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	h.texts["lines"] = strings.Join(lines, "\n")
}

// accuracy compares estimates with the FCTs of the paper's ns-3, as measurement accuracy does.
func (h *headliner) accuracy(ctx context.Context) {
	if !h.needsShared() {
		return
	}
	errors := map[string]*figures{}
	for _, way := range []string{"published", "independent", "flow", "auto"} {
		errors[way] = &figures{}
	}
	for _, s := range h.sources(h.groundTruths()) {
		lake := h.lake()
		errors["published"].add(s.name, s.beside.p99())
		for _, way := range []string{"independent", "flow", "auto"} {
			e := h.run(ctx, lake, append(slices.Clone(s.flags), "--estimator", way)...)
			errors[way].add(s.name, h.validate(ctx, lake, e, s.truth)["all"].errors.p99())
			if h.err != nil {
				return
			}
		}
	}
	for way, f := range errors {
		mean, worst, _ := f.magnitudes()
		h.add(way+"-mean", 100*mean)
		h.add(way+"-worst", 100*worst)
	}
}

// makeTest measures the tests of the main module without a build cache.
func (h *headliner) makeTest(ctx context.Context) {
	h.execute(ctx, []string{"GOCACHE=" + filepath.Join(h.tmp, "build")}, "make", "unit")
	h.add("minutes", h.elapsed.Minutes())
}
