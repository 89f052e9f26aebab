package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
	"parsimon/stages/topology"
)

// A linkCase is a link case as a text file has it, in whitespace-separated integers:
//
//	bandwidth_bps mark_bytes sources flows
//	source_id delay_to_target_ns first_link_bps               (sources lines)
//	flow_id source_id size_bytes start_ns delay_src_to_dst_ns  (flows lines, by start)
//	flow_id fct_ns ideal_ns                                    (another simulator's answers, if any)
type linkCase struct {
	name    string // file name without .txt
	flowIDs []int64
	c       linkcase.Case
	answers []linkAnswer
}

// A linkAnswer is what another simulator found for a flow.
type linkAnswer struct {
	flowID, fctNS, idealNS int64
}

// standInBps: a case with one source at no distance and a target so fast is a first hop; the
// target's bandwidth then stands for "no queue", and the source's link is the one under study.
const standInBps = 1_000_000_000_000

// benchKernel simulates all link cases (*.txt) of dir on one thread, by name. It writes the answers
// to outCSV (case, flow_id, fct_ns, ideal_ns), unless that is empty, and ends its output with
// "packet_hops N ns_per_packet_hop X": the packets of all flows, payload 1,000 bytes, and the wall
// time over them of everything but reading and writing. A malformed file is an error that names it
// and the line.
func benchKernel(dir, outCSV string, stdout io.Writer) (err error) {
	cases, err := readLinkCases(dir)
	if err != nil {
		return err
	}
	params := simkernel.DefaultParams()
	kernel, err := linkcase.NewKernel(params)
	if err != nil {
		return err
	}
	var out *bufio.Writer
	if outCSV != "" {
		f, err := openOutput(outCSV)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.commit()) }()
		out = bufio.NewWriterSize(f, 1<<20)
		if _, err := out.WriteString("case,flow_id,fct_ns,ideal_ns\n"); err != nil {
			return err
		}
	}

	var result linkcase.Result
	var hops, flows, unfinished int64
	var spent time.Duration
	for i := range cases {
		lc := &cases[i]
		began := time.Now()
		err := kernel.Simulate(&lc.c, &result)
		spent += time.Since(began)
		if err != nil {
			return fmt.Errorf("link case %s: %w", lc.name, err)
		}
		flows += int64(len(lc.flowIDs))
		unfinished += result.Unfinished
		for _, size := range lc.c.SizeBytes {
			hops += params.Packets(size)
		}
		if out != nil {
			if err := writeLinkAnswers(out, lc, &result); err != nil {
				return err
			}
		}
	}
	if out != nil {
		if err := out.Flush(); err != nil {
			return err
		}
	}
	perHop := float64(spent.Nanoseconds()) / float64(max(hops, 1))
	_, err = fmt.Fprintf(stdout, "cases %d flows %d unfinished %d seconds %.3f\npacket_hops %d ns_per_packet_hop %.2f\n",
		len(cases), flows, unfinished, spent.Seconds(), hops, perHop)
	return err
}

func writeLinkAnswers(out *bufio.Writer, lc *linkCase, r *linkcase.Result) error {
	var line []byte
	for i, id := range lc.flowIDs {
		line = append(line[:0], lc.name...)
		for _, v := range []int64{id, r.FCTNS[i], r.IdealNS[i]} {
			line = append(line, ',')
			line = strconv.AppendInt(line, v, 10)
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// readLinkCases reads all *.txt of a directory, by name.
func readLinkCases(dir string) ([]linkCase, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var cases []linkCase
	for _, e := range entries {
		name, isText := strings.CutSuffix(e.Name(), ".txt")
		if !isText || e.IsDir() {
			continue
		}
		lc, err := readLinkCase(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		lc.name = name
		cases = append(cases, lc)
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("%s holds no link case (*.txt)", dir)
	}
	slices.SortFunc(cases, func(a, b linkCase) int { return cmp.Compare(a.name, b.name) })
	return cases, nil
}

// readLinkCase reads one file.
func readLinkCase(path string) (linkCase, error) {
	text, err := topology.ReadFile(path)
	if err != nil {
		return linkCase{}, err
	}
	lc, line, err := parseLinkCase(text, strings.Contains(filepath.Base(path), "host_up"))
	if err != nil {
		return linkCase{}, fmt.Errorf("%s:%d: %w", path, line, err)
	}
	return lc, nil
}

// parseLinkCase parses a link case; an error comes with its line, from 1.
func parseLinkCase(text []byte, named bool) (lc linkCase, line int, err error) {
	p := lineParser{rest: text}
	head, err := p.next(4)
	if err != nil {
		return lc, p.line, err
	}
	lc.c.TargetBps, lc.c.MarkBytes = head[0], head[1]
	sources, flows := head[2], head[3]
	// A line has at least two bytes, so a file cannot announce more than it could hold.
	if limit := int64(len(text)); sources < 1 || sources > limit || flows < 0 || flows > limit {
		return lc, p.line, fmt.Errorf("%d sources and %d flows do not fit a file of %d bytes", sources, flows, limit)
	}
	rows := make(map[int64]int32, sources)
	for i := range int32(sources) {
		v, err := p.next(3)
		if err != nil {
			return lc, p.line, err
		}
		if _, twice := rows[v[0]]; twice {
			return lc, p.line, fmt.Errorf("source %d is listed twice", v[0])
		}
		rows[v[0]] = i
		lc.c.SourceDelayNS = append(lc.c.SourceDelayNS, v[1])
		lc.c.SourceBps = append(lc.c.SourceBps, v[2])
	}
	for range flows {
		v, err := p.next(5)
		if err != nil {
			return lc, p.line, err
		}
		row, ok := rows[v[1]]
		switch n := len(lc.c.StartNS); {
		case !ok:
			return lc, p.line, fmt.Errorf("flow %d: source %d is not listed", v[0], v[1])
		case v[2] < 1:
			return lc, p.line, fmt.Errorf("flow %d: size_bytes is %d, must be at least 1", v[0], v[2])
		case v[3] < 0:
			return lc, p.line, fmt.Errorf("flow %d: start_ns is %d, must not be negative", v[0], v[3])
		case n > 0 && v[3] < lc.c.StartNS[n-1]:
			return lc, p.line, fmt.Errorf("flow %d: start_ns is %d, before the flow above it", v[0], v[3])
		case v[4] < lc.c.SourceDelayNS[row]:
			return lc, p.line, fmt.Errorf("flow %d: delay of %d ns to the destination, but %d ns to the target on the way",
				v[0], v[4], lc.c.SourceDelayNS[row])
		}
		lc.flowIDs = append(lc.flowIDs, v[0])
		lc.c.Source = append(lc.c.Source, row)
		lc.c.SizeBytes = append(lc.c.SizeBytes, v[2])
		lc.c.StartNS = append(lc.c.StartNS, v[3])
		lc.c.PathDelayNS = append(lc.c.PathDelayNS, v[4])
	}
	for !p.done() {
		v, err := p.next(3)
		if err != nil {
			return lc, p.line, err
		}
		lc.answers = append(lc.answers, linkAnswer{v[0], v[1], v[2]})
	}
	lc.c.Kind = linkcase.Behind
	if sources == 1 && lc.c.SourceDelayNS[0] == 0 && (named || lc.c.TargetBps >= standInBps) {
		lc.c.Kind = linkcase.FirstHop
	}
	return lc, 0, nil
}

// A lineParser takes lines of integers from a text.
type lineParser struct {
	rest   []byte
	line   int // of the last line taken, from 1
	fields [5]int64
}

// done says whether nothing but white space is left.
func (p *lineParser) done() bool {
	return len(bytes.TrimSpace(p.rest)) == 0
}

// next takes a line of n integers. The answer is good until the following call.
func (p *lineParser) next(n int) ([]int64, error) {
	p.line++
	if len(p.rest) == 0 {
		return nil, fmt.Errorf("the file ends where a line of %d numbers should be", n)
	}
	text, rest, _ := bytes.Cut(p.rest, []byte{'\n'})
	p.rest = rest
	got := 0
	for field := range bytes.FieldsSeq(text) {
		if got == n {
			return nil, fmt.Errorf("more than %d numbers", n)
		}
		v, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number of 64 bits", field)
		}
		p.fields[got] = v
		got++
	}
	if got < n {
		return nil, fmt.Errorf("%d numbers, want %d", got, n)
	}
	return p.fields[:n], nil
}

var benchKernelCommand = command{
	name: "bench-kernel", args: "--cases DIR [--out FCTS.csv]",
	summary: "time the link kernel on link cases in text form",
	help: `
Simulates every *.txt link case in a directory on one thread. The last line says packet_hops, the
sum of ⌈size/1000⌉ over all flows, and ns_per_packet_hop; the clock runs over everything but
parsing. --out writes the FCTs as CSV: case, flow_id, fct_ns, ideal_ns.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var cases, out string
		f.StringVar(&cases, "cases", "", "directory of link cases (required)")
		f.StringVar(&out, "out", "", "CSV file for the FCTs")
		return func(_ context.Context, args []string) error {
			if cases == "" || len(args) > 0 {
				return usagef("--cases is required, and nothing else but --out")
			}
			return benchKernel(cases, out, e.stdout)
		}
	},
}
