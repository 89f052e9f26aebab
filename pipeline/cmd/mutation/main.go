// Command mutation measures how many small faults the tests of a package find.
//
//	source files ─► sites (constants, comparisons, operators) ─► a random sample
//	                                    in functions: one binary │  │ elsewhere: one build
//	                                    that has all changes     ▼  ▼ for each
//	  -test.short, the package's own tests that run the line ─► killed, alive or invalid
//
// A mutant is one change of one file: another number, comparison or operator. It is killed if the package's
// own short tests fail or take ten times their processor time, alive if they pass, and invalid if it does not
// compile. Tests that wait for minutes kill it only if they do not without it. Each test runs once alone,
// which shows its processor time and the lines that it runs. A mutant is then tried with the tests that run
// its line, the fastest first. Mutants on lines that no test runs are alive, without a run. The sample
// depends only on --seed, so that a run can be repeated. Capacities and texts of errors have no mutants.
//
//	go run ./pipeline/cmd/mutation --mutants 40 --seed 7 ./stages/... ./simkernel/...
//
// With --record FILE each verdict is kept in a file as soon as it is known. The same command then tries only
// the mutants that have none yet, and those that were alive if tests have changed.
//
// It prints a line for each mutant that is alive, a table of the packages, and the score. The score is the
// share of valid mutants that were killed. The exit code is 1 if the score is below --least.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

// run measures the packages that are given as arguments.
func run(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet("mutation", pflag.ContinueOnError)
	mutants := flags.Int("mutants", 40, "mutants to try of each package")
	seed := flags.Uint64("seed", uint64(time.Now().YearDay()),
		"seed of the sample; the default changes every day")
	least := flags.Float64("least", 0, "lowest score that is a success, from 0 to 1")
	match := flags.String("only", "", "only mutants whose FILE:LINE contains this text")
	kept := flags.String("record", "", "file that keeps verdicts, with which a stopped run continues")
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() == 0:
		return errors.New("no packages are named; ./stages/... names all below stages")
	}
	sites, err := findSites(ctx, flags.Args())
	if err != nil {
		return err
	}
	sample := slices.DeleteFunc(draw(sites, *mutants, *seed), func(s site) bool {
		return !strings.Contains(fmt.Sprintf("%s:%d", s.file, s.line), *match)
	})
	fmt.Printf("%d of %d mutants, seed %d\n", len(sample), len(sites), *seed)
	verdicts, err := openRecord(*kept)
	if err != nil {
		return err
	}
	t, err := newTester(verdicts)
	if err != nil {
		return err
	}
	defer t.close()
	counts, err := t.try(ctx, sample)
	if err := errors.Join(err, verdicts.close()); err != nil {
		return err
	}
	score := printScores(counts)
	if score < *least {
		return fmt.Errorf("score %.2f is below %.2f", score, *least)
	}
	return nil
}

// draw returns a random sample of the sites of each package. The sample of a package depends on its own sites
// only.
func draw(sites []site, each int, seed uint64) []site {
	of := map[string][]site{}
	for _, s := range sites {
		of[s.pkg] = append(of[s.pkg], s)
	}
	var sample []site
	for _, pkg := range sortedKeys(of) {
		random := rand.New(rand.NewPCG(seed, 0))
		all := of[pkg]
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		sample = append(sample, all[:min(each, len(all))]...)
	}
	return sample
}

// printScores prints the counts of each package and their totals, and returns the total score.
func printScores(counts map[string]*count) float64 {
	var all count
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\tkilled\talive\tinvalid\tundecided\tscore")
	for _, name := range sortedKeys(counts) {
		c := counts[name]
		printCount(table, name, *c)
		all.killed += c.killed
		all.alive += c.alive
		all.invalid += c.invalid
		all.undecided += c.undecided
	}
	printCount(table, "all", all)
	table.Flush()
	return all.score()
}

func printCount(w io.Writer, name string, c count) {
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%.2f\n", name, c.killed, c.alive, c.invalid, c.undecided, c.score())
}
