package main

import (
	"cmp"
	"context"
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

// A linkCase is a link case in a text file of integers separated by white space:
//
//	bandwidth_bps mark_bytes sources flows
//	source_id delay_to_target_ns first_link_bps               (sources lines)
//	flow_id source_id size_bytes start_ns delay_src_to_dst_ns  (flows lines, by start)
//	flow_id fct_ns ideal_ns                                    (results of another simulator, if any)
type linkCase struct {
	name    string // file name without .txt
	flowIDs []int64
	c       linkcase.Case
}

// standInBps marks a first hop: a case with one source at distance 0 and a target of at least this bandwidth.
// The bandwidth of the target then means "no queue", and the link to be simulated is that of the source.
const standInBps = 1_000_000_000_000

// simulateLinkCases simulates link cases on one thread, in order. It writes the FCTs to out (case, flow_id,
// fct_ns, ideal_ns). The last line on stdout is "packet_hops N ns_per_packet_hop X": the packets of all
// flows, with a payload of 1,000 bytes, and the wall time of a packet without reading and writing.
func simulateLinkCases(ctx context.Context, cases []linkCase, out, stdout io.Writer) error {
	params := simkernel.DefaultParams()
	kernel, err := linkcase.NewKernel(params)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, "case,flow_id,fct_ns,ideal_ns\n"); err != nil {
		return err
	}
	var result linkcase.Result
	var hops, flows, unfinished int64
	var spent time.Duration
	for i := range cases {
		if err := ctx.Err(); err != nil {
			return err
		}
		lc := &cases[i]
		began := time.Now()
		err := kernel.Simulate(&lc.c, &result)
		spent += time.Since(began)
		if err != nil {
			return fmt.Errorf("link case %s: %w", lc.name, err)
		}
		flows += int64(len(lc.flowIDs))
		unfinished += result.Unfinished
		for row, id := range lc.flowIDs {
			hops += params.Packets(lc.c.SizeBytes[row])
			if _, err := fmt.Fprintf(out, "%s,%d,%d,%d\n", lc.name, id, result.FCTNS[row],
				result.IdealNS[row]); err != nil {
				return err
			}
		}
	}
	perHop := float64(spent.Nanoseconds()) / float64(max(hops, 1))
	_, err = fmt.Fprintf(stdout, "cases %d flows %d unfinished %d seconds %.3f\npacket_hops %d "+
		"ns_per_packet_hop %.2f\n",
		len(cases), flows, unfinished, spent.Seconds(), hops, perHop)
	return err
}

// readLinkCases reads all files *.txt of a directory, in the order of their names.
func readLinkCases(dir string) (cases []linkCase, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries { // by file name
		name, isText := strings.CutSuffix(e.Name(), ".txt")
		if !isText || e.IsDir() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		text, err := topology.ReadFile(path)
		if err != nil {
			return nil, err
		}
		lc, line, err := parseLinkCase(text, strings.Contains(name, "host_up"))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, line, err)
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

// parseLinkCase parses a link case. In an error, it returns the number of the line, from 1.
func parseLinkCase(text []byte, named bool) (lc linkCase, line int, err error) {
	p := lineParser{lines: strings.Split(strings.TrimSpace(string(text)), "\n")}
	head := p.next(4)
	lc.c.TargetBps = head[0]
	lc.c.MarkBytes = head[1]
	sources := head[2]
	flows := head[3]
	// A line has at least two bytes, so a file cannot announce more than it could hold.
	limit := int64(len(text))
	if p.err == nil && (sources < 1 || sources > limit || flows < 0 || flows > limit) {
		p.fail("%d sources and %d flows do not fit a file of %d bytes", sources, flows, limit)
	}
	rows := map[int64]int32{}
	for i := int64(0); i < sources && p.err == nil; i++ {
		v := p.next(3)
		if _, twice := rows[v[0]]; twice {
			p.fail("source %d is listed twice", v[0])
		}
		rows[v[0]] = int32(i)
		lc.c.SourceDelayNS = append(lc.c.SourceDelayNS, v[1])
		lc.c.SourceBps = append(lc.c.SourceBps, v[2])
	}
	for i := int64(0); i < flows && p.err == nil; i++ {
		p.flow(&lc, rows)
	}
	for p.err == nil && p.line < len(p.lines) {
		p.next(3) // an answer
	}
	lc.c.Behind = sources != 1 || p.err != nil || lc.c.SourceDelayNS[0] != 0 ||
		!named && lc.c.TargetBps < standInBps
	return lc, p.line, p.err
}

// A lineParser parses lines of integers until one is wrong.
type lineParser struct {
	lines []string
	line  int   // number of the line last parsed, from 1
	err   error // the first error; it is in that line
}

func (p *lineParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// next parses a line of n integers.
func (p *lineParser) next(n int) []int64 {
	v := make([]int64, n)
	p.line++
	if p.line > len(p.lines) {
		p.fail("the file ends where a line of %d numbers should be", n)
		return v
	}
	words := strings.Fields(p.lines[p.line-1])
	if len(words) != n {
		p.fail("%d numbers, want %d", len(words), n)
	}
	for i, word := range words[:min(n, len(words))] {
		var err error
		if v[i], err = strconv.ParseInt(word, 10, 64); err != nil {
			p.fail("%q is not a whole number of 64 bits", word)
		}
	}
	return v
}

// flow parses the line of a flow. rows maps the id of a source to its row.
func (p *lineParser) flow(lc *linkCase, rows map[int64]int32) {
	v := p.next(5)
	row, ok := rows[v[1]]
	switch n := len(lc.c.StartNS); {
	case !ok:
		p.fail("flow %d: source %d is not listed", v[0], v[1])
	case v[2] < 1:
		p.fail("flow %d: size_bytes is %d, must be at least 1", v[0], v[2])
	case v[3] < 0:
		p.fail("flow %d: start_ns is %d, must not be negative", v[0], v[3])
	case n > 0 && v[3] < lc.c.StartNS[n-1]:
		p.fail("flow %d: start_ns is %d, before the flow above it", v[0], v[3])
	case v[4] < lc.c.SourceDelayNS[row]:
		p.fail("flow %d: delay of %d ns to the destination, but %d ns to the target on the way", v[0], v[4],
			lc.c.SourceDelayNS[row])
	}
	lc.flowIDs = append(lc.flowIDs, v[0])
	lc.c.Source = append(lc.c.Source, row)
	lc.c.SizeBytes = append(lc.c.SizeBytes, v[2])
	lc.c.StartNS = append(lc.c.StartNS, v[3])
	lc.c.PathDelayNS = append(lc.c.PathDelayNS, v[4])
}

// A benchKernelVerb times the link kernel.
type benchKernelVerb struct {
	*env
	cases string
	out   string
}

func (v *benchKernelVerb) declare(f *pflag.FlagSet) {
	f.StringVar(&v.cases, "cases", "", "`directory` of link cases (required)")
	f.StringVar(&v.out, "out", "", "CSV `file` for the FCTs")
}

func (v *benchKernelVerb) run(ctx context.Context, _ []string) error {
	if v.cases == "" {
		return usagef("--cases is required")
	}
	all, err := readLinkCases(v.cases)
	if err != nil {
		return err
	}
	if v.out == "" {
		return simulateLinkCases(ctx, all, io.Discard, v.stdout)
	}
	return v.writeOutput(ctx, v.out, func(w io.Writer) error { return simulateLinkCases(ctx, all, w, v.stdout) })
}
