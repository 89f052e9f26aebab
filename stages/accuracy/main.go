package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/simkernel"
)

type options struct {
	shared, cache, scenarios, transport string
	passes, from, most                  int
	windowBytes                         int64
	jitter                              bool
}

func main() {
	var o options
	pflag.StringVar(&o.shared, "shared", "../shared/reference", "folder of the reference data")
	pflag.StringVar(&o.cache, "cache", os.TempDir(), "folder for simulated truths")
	pflag.StringVar(&o.scenarios, "scenarios", "mini-star,mini-mix,mini-slow-40-2,sigma3-60", "names under hard, or numbers under scenarios")
	pflag.StringVar(&o.transport, "transport", "dctcp", "transport of the senders")
	pflag.IntVar(&o.passes, "passes", 3, "passes over the link cases")
	pflag.IntVar(&o.from, "from", 0, "first pass to print; 0: the last")
	pflag.IntVar(&o.most, "flows", math.MaxInt, "take so many flows at most")
	pflag.Int64Var(&o.windowBytes, "window", 0, "window in bytes; 0: the default")
	pflag.BoolVar(&o.jitter, "jitter", false, "print how far the truth moves by changes of 1 ns")
	pflag.Parse()
	for _, name := range strings.Split(o.scenarios, ",") {
		if err := run(context.Background(), name, &o); err != nil {
			fmt.Fprintf(os.Stderr, "accuracy: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func run(ctx context.Context, name string, o *options) error {
	transport, err := simkernel.ParseTransport(o.transport)
	if err != nil {
		return err
	}
	p := simkernel.ParamsOf(transport)
	if o.windowBytes > 0 {
		p.WindowBytes = o.windowBytes
	}
	s, err := load(o.shared, name, p, o.most)
	if err != nil {
		return err
	}
	from, err := s.readTruth(o.cache)
	if err != nil {
		return err
	}
	e, err := start(ctx, s)
	if err != nil {
		return err
	}
	for n := 1; n <= o.passes; n++ {
		if err := e.pass(ctx, n); err != nil {
			return err
		}
		if n != o.passes && (o.from == 0 || n < o.from) && !o.jitter {
			continue
		}
		fctNS, idealNS, stats, err := e.estimate(ctx)
		if err != nil {
			return err
		}
		if o.jitter {
			return s.printJitter(idealNS)
		}
		fmt.Printf("%-14s %-20s %d | %v | %.1f M hops, %.2f × independent\n", name, from, n, s.verdict(fctNS, idealNS),
			float64(e.hopsRun+stats.PacketHops)/1e6, float64(e.kernelNS+stats.KernelNS)/float64(e.independentNS))
	}
	return nil
}

func (s *scenario) printJitter(idealNS []int64) error {
	moved, err := s.jittered()
	if err != nil {
		return err
	}
	fctNS := make([]int64, len(moved))
	for f := range moved {
		fctNS[f] = int64(moved[f])
	}
	fmt.Printf("%-14s jitter               | %v\n", s.name, s.verdict(fctNS, idealNS))
	return nil
}
