package network

import (
	"context"
	"runtime"
	"sync"

	"parsimon/schema/together"
	"parsimon/simkernel"
	"parsimon/simkernel/network/workers"
)

// Run simulates the whole workload with at most the given number of workers, and not more than the number of
// processors. If finished is not nil, Run calls it for a few thousand flows at a time, in the order of their
// delivery. It calls it from another goroutine, but from one at a time. The Results are valid until the call
// returns. The simulation ends with an error if a row of the workload is invalid, if its source or finished
// returns an error, or if ctx ends. A panic of any goroutine also ends it, and is returned as
// *together.Panic.
func (n *Network) Run(ctx context.Context, workers int, finished func(*Results) error) error {
	return n.run(ctx, min(workers, runtime.GOMAXPROCS(0)), nil, finished)
}

// run is Run with given domains of the nodes, unless domainOf is nil.
func (n *Network) run(ctx context.Context, workers int, domainOf []int32,
	finished func(*Results) error) error {
	n.setRules()
	f := &feed{net: n, batches: make(chan *batch, batchesAhead)}
	first := f.next()
	f.batches <- first
	if domainOf == nil {
		domainOf = n.partition(n.domainsFor(workers), first.flows)
	}
	n.layOut(domainOf)
	var all sync.WaitGroup
	stop := make(chan struct{})
	if !first.ends() {
		all.Go(func() { f.run(stop) })
	}
	c := &collector{finished: finished, parts: make(chan []resultPart, 2)}
	var collectErr error
	collected := make(chan struct{}) // closed when the collector has stopped
	all.Go(func() {
		defer close(collected)
		collectErr = c.run()
	})
	var err error
	fault := together.Catch(func() { err = n.steps(ctx, workers, f, c) })
	close(c.parts)
	<-collected
	close(stop)
	all.Wait()
	if fault != nil {
		return fault
	}
	if err == nil {
		err = collectErr
	}
	return err
}

// steps simulates step by step.
func (n *Network) steps(ctx context.Context, count int, f *feed, c *collector) error {
	p := &pacer{net: n, feed: f, steps: 1}
	w := n.startWorkers(count)
	defer w.Stop()
	for {
		fromPS, err := p.advance()
		if err != nil {
			return err
		}
		ended := n.EndNS > 0 && fromPS >= n.EndNS*simkernel.PSPerNS
		if fromPS == never || ended {
			n.passOn(c, 1)
			return n.storm()
		}
		n.passOn(c, resultsAtOnce)
		if c.failed.Load() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		ran := n.stepsBeforeEnd(fromPS, p.steps)
		n.alone = w.Alone
		w.Run(n.step+1, fromPS, ran)
		n.step += ran
		p.steps = w.Settle(ran)
		if n.recovery != nil {
			n.recovery.settle()
			if n.step/stormSteps != (n.step-ran)/stormSteps {
				if err := n.storm(); err != nil {
					return err
				}
			}
		}
	}
}

// stepsBeforeEnd returns how many of a number of steps, the first of which begins at fromPS, begin before
// EndNS.
func (n *Network) stepsBeforeEnd(fromPS, steps int64) int64 {
	if n.EndNS == 0 {
		return steps
	}
	leftPS := n.EndNS*simkernel.PSPerNS - fromPS
	return min(steps, (leftPS+n.stepPS-1)/n.stepPS)
}

// startWorkers starts at most this number of workers for the domains.
func (n *Network) startWorkers(count int) *workers.Pool {
	domains := make([]workers.Domain, len(n.domains))
	for i := range domains {
		domains[i] = &n.domains[i]
	}
	return workers.Start(domains, count, workers.Settings{
		StepPS: n.stepPS, LeastWork: n.leastWork, Progress: n.Progress,
		OneStep: n.frontier != nil, // the frontier acts on all domains between steps
	})
}

func (n *Network) live() (flows int64) {
	for i := range n.domains {
		flows += n.domains[i].pool.live
	}
	return flows
}
