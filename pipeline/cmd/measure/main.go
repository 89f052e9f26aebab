package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// A measurement is a page of results and the function that measures them.
type measurement struct {
	name    string
	args    string // what the arguments are; "" for none
	summary string
	run     func(ctx context.Context, b *bench)
}

func measurements() []measurement {
	return []measurement{
		{"accuracy", "SCENARIO", "estimators against ns-3 on the shared scenarios",
			compared("95", (*bench).groundTruths, "independent", "flow", "auto")},
		{"own-accuracy", "SCENARIO", "estimators against --exact on the shipped scenarios",
			compared("parking-lot/short-correlated", shipped("accuracy", "parking-lot"), "independent", "flow", "auto")},
		{"constants", "SCENARIO", "unusual transport constants, against --exact",
			compared("constants/jumbo-9000", shipped("constants"), "flow", "auto")},
		{"transport-accuracy", "TRANSPORT", "every transport against --exact", transportAccuracy},
		{"honesty", "SCENARIO", "warnings and intervals of the default against its errors",
			compared("mini-mix", otherKinds, "flow", "auto")},
		{"held-out", "SCENARIO", "the same on networks and traffic of other kinds, against --exact",
			compared("held-out/microbursts", shipped("held-out"), "flow", "auto")},
		{"bench-kernel", "", "link kernel against the reference link simulator", benchKernel},
		{"bench-run", "SCENARIO", "a whole estimate against the reference", benchRun},
		{"bench-exact", "SCENARIO", "estimates by link cases against the whole-network simulation", benchExact},
		{"large", "DURATION", "6,144 hosts: time, memory, disk", large},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
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
	flags.StringVar(&b.shared, "shared", "../shared", "folder of the ground truth and of the reference's programs")
	flags.StringVar(&b.keep, "lake", "", "a lake to use and keep; default: temporary ones")
	flags.StringVar(&b.how, "ways", "", "flags of the estimates to measure, separated by semicolons, "+
		"e.g. \"independent;flow --passes 1\"; the first word is the estimator")
	flags.IntVar(&b.rounds, "rounds", 0, "rounds, pairs or draws; 0: the measurement's own number")
	flags.BoolVar(&b.short, "short", false, "a small part of the measurement, to try it")
	flags.BoolVar(&b.write, "write", false, "write datasets/results/NAME.md")
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
		if b.write && (b.short || len(b.args) > 0 || b.how != "") {
			return errors.New("--write is for the whole measurement: without --short, --ways and arguments")
		}
		if b.tmp, err = os.MkdirTemp("", "measure-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(b.tmp)) }()
		if m.run(ctx, b); b.err != nil || !b.write {
			return b.err
		}
		text := fmt.Sprintf("# %s\n\n%s%s. Written by `make %s ARGS=--write`.\n\n%s\n\n%s\n", m.name,
			strings.ToUpper(m.summary[:1]), m.summary[1:], m.name, b.provenance(ctx), strings.TrimSpace(b.out.String()))
		return os.WriteFile(filepath.Join("datasets", "results", m.name+".md"), []byte(text), 0o644)
	}
	return fmt.Errorf("no measurement %q: \"measure\" lists them", flags.Arg(0))
}

// provenance says at which commit, when and where figures were measured.
func (b *bench) provenance(ctx context.Context) string {
	commit, _ := b.execute(ctx, nil, "git", "describe", "--always", "--dirty", "--exclude=*")
	info, _ := os.ReadFile("/proc/cpuinfo") // absent on other systems
	processor := runtime.GOARCH
	if found := regexp.MustCompile(`(?m)^model name\s*: (.+)$`).FindSubmatch(info); found != nil {
		processor = string(found[1])
	}
	return fmt.Sprintf("Measured at commit `%s` on %s, %d cores (%s).", strings.TrimSpace(commit),
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), processor)
}

func usage(flags *pflag.FlagSet) string {
	var s strings.Builder
	s.WriteString("measure NAME [flags] [ARGUMENT …]\n\n")
	for _, m := range measurements() {
		fmt.Fprintf(&s, "  %-19s%-12s%s\n", m.name, m.args, m.summary)
	}
	return s.String() + "\n" + flags.FlagUsages()
}
