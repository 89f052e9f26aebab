// Command measure repeats the measurements that the pages of this repository cite.
//
//	go run ./pipeline/cmd/measure NAME [flags] [ARGUMENT …]
//
// Each measurement is one function. It runs bin/parsimon (make build) as a user would, in new lakes, and
// prints Markdown tables. With --write, it also writes them to datasets/results/NAME.md, together with the
// commit, the date and the machine. Measurement paper writes datasets/PAPER.md (paper.go), and headline
// writes every page that states a speed (headline.go).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
)

// A measurement is a page of results and the function that measures them.
type measurement struct {
	name    string
	args    string // meaning of the arguments; "" for none
	summary string
	run     func(ctx context.Context, b *bench)
}

func measurements() []measurement {
	return []measurement{
		{"accuracy", "SCENARIO", "estimators against ns-3 on the shared scenarios",
			compared("95", (*bench).groundTruths, "independent", "flow", "auto")},
		{"own-accuracy", "SCENARIO", "estimators against --exact on the shipped scenarios",
			compared("parking-lot/short-correlated", shipped("accuracy", "parking-lot"), "independent", "flow",
				"auto")},
		{"constants", "SCENARIO", "unusual transport constants, against --exact",
			compared("constants/jumbo-9000", shipped("constants"), "flow", "auto")},
		{"honesty", "SCENARIO", "warnings and intervals of the default against its errors",
			compared("mini-mix", otherKinds, "flow", "auto")},
		{"held-out", "SCENARIO", "the same on networks and traffic of other kinds, against --exact",
			compared("held-out/microbursts", shipped("held-out"), "flow", "auto")},
		{"loads", "SCENARIO", "the load of the busiest link of the shipped scenarios, asked and drawn",
			shippedLoads},
		{"lengths", "MILLISECONDS", "the error of independent by the length of the workload", measureLengths},
		{"independent-coverage", "", "95% intervals of independent, over drawn workloads of five kinds",
			measureCoverage},
		{"paper", "ITEM", "the paper's evaluation again, with the truth beside; it goes on where it was " +
			"interrupted", repeatPaper},
		{"days", "DAY", "flow logs of generated days: the bytes of each link in each minute against the truth",
			measureDays},
		{"headline", "NAME", "every figure of README.md and PERFORMANCE.md; it continues where it was " +
			"interrupted", measureHeadline},
		{"forecast", "SCENARIO", "the time that a run predicts, and the time that it takes", measureForecast},
		{"bench-exact", "SCENARIO", "two passes of link cases against the whole network", benchExact},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// command runs one measurement in a temporary directory, which it removes.
func command(ctx context.Context, args []string) (err error) {
	b := &bench{}
	flags := pflag.NewFlagSet("measure", pflag.ContinueOnError)
	flags.StringVar(&b.program, "parsimon", "bin/parsimon", "the program to measure")
	flags.StringVar(&b.shared, "shared", "../shared", "folder of the ground truth and of the reference's "+
		"programs")
	flags.BoolVar(&b.short, "short", false, "a small part of the measurement, to try it")
	flags.BoolVar(&b.write, "write", false, "write datasets/results/NAME.md")
	flags.StringVar(&b.records, "records", ".cache/measured",
		"of paper, lengths and days: folder of what is measured already")
	flags.Float64Var(&b.minutes, "minutes", -1, "of paper, lengths, days and headline: begin no run after N "+
		"minutes; 0 only writes the page (default: no limit, 15 with --short, but not of headline)")
	flags.StringVar(&b.before, "before", "", "of headline: an earlier build of the program, which is measured "+
		"alternately")
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage(flags)) }
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return nil
	}
	b.args = flags.Args()[1:]
	for _, m := range measurements() {
		if m.name != flags.Arg(0) {
			continue
		}
		if b.write && (b.short || len(b.args) > 0) {
			return errors.New("--write is for the whole measurement: without --short and arguments")
		}
		if b.write && writesPages(m.name) {
			return fmt.Errorf("--write: %s always writes its pages", m.name)
		}
		if b.tmp, err = os.MkdirTemp("", "measure-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(b.tmp)) }()
		m.run(ctx, b)
		if b.err != nil || !b.write {
			return b.err
		}
		text := fmt.Sprintf("# %s\n\n%s%s. Written by `make %s ARGS=--write`.\n\n%s\n\n%s\n", m.name,
			strings.ToUpper(m.summary[:1]), m.summary[1:], m.name, b.provenance(ctx),
			strings.TrimSpace(b.out.String()))
		return os.WriteFile(filepath.Join("datasets", "results", m.name+".md"), []byte(text), 0o644)
	}
	return fmt.Errorf("no measurement %q: \"measure\" lists them", flags.Arg(0))
}

// writesPages reports whether a measurement writes other pages than its own in datasets/results, and always.
func writesPages(name string) bool { return name == "paper" || name == "headline" }

func usage(flags *pflag.FlagSet) string {
	var s strings.Builder
	s.WriteString("measure NAME [flags] [ARGUMENT …]\n\n")
	for _, m := range measurements() {
		fmt.Fprintf(&s, "  %-19s%-13s%s\n", m.name, m.args, m.summary)
	}
	return s.String() + "\n" + flags.FlagUsages()
}
