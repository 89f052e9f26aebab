package main

import (
	"context"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema/columns"
	"parsimon/stages"
	"parsimon/stages/topology"
)

const seed = 1 // of ECMP, as in the shared truths, and of draws

// estimation is estimator flow under way.
type estimation struct {
	*scenario
	sim                   *stages.Simulator
	hops                  *table
	observed, given, sent *table
	stats                 *table // of the pass before
	independentNS         int64  // of the link cases in one pass of estimator independent
	hopsRun, kernelNS     int64
}

func (e *estimation) count(s stages.SimulateStats) {
	e.hopsRun += s.PacketHops
	e.kernelNS += s.KernelNS
}

func (e *estimation) links() int32 { return int32(len(e.net.Links)) }

// start routes the flows and runs the uplinks.
func start(ctx context.Context, s *scenario) (*estimation, error) {
	e := &estimation{scenario: s, hops: &table{}, given: &table{}}
	router, err := topology.NewRouter(s.net, seed)
	if err != nil {
		return nil, err
	}
	loadRows := &table{}
	p := &s.params
	_, err = stages.Route(ctx, router, p, s.flows().read(), 0, 0, e.hops, loadRows, stages.RouteOptions{})
	if err != nil {
		return nil, err
	}
	loads, err := stages.ReadLoads(s.net, loadRows.read())
	if err != nil {
		return nil, err
	}
	independent, err := stages.NewSimulator(s.net, s.params, loads, stages.Independent, 0)
	if err != nil {
		return nil, err
	}
	stats, err := independent.Simulate(ctx, 0, e.links(), e.hops.read(), nil, &table{}, &table{}, nil)
	if err != nil {
		return nil, err
	}
	e.independentNS = stats.KernelNS
	if e.sim, err = stages.NewSimulator(s.net, s.params, loads, stages.Flow, 0); err != nil {
		return nil, err
	}
	observed := &table{}
	if stats, err = e.sim.SimulateUplinks(ctx, 0, e.links(), e.hops.read(), observed, nil); err != nil {
		return nil, err
	}
	e.count(stats)
	return e, e.feedback(0).Build(ctx, stages.UplinkScope, 0, int64(len(s.id)), observed.read(), nil, e.given, nil)
}

func (e *estimation) feedback(pass int) *stages.FeedbackBuilder {
	return stages.NewFeedbackBuilder(e.net, &e.params, seed, pass, 0)
}

// pass makes one pass over the link cases, after exchanging the observations of the one before.
func (e *estimation) pass(ctx context.Context, n int) error {
	if n > 1 {
		given, sent := &table{}, &table{}
		build := e.feedback(n - 1)
		var err error
		if e.sent == nil {
			err = build.Build(ctx, stages.PassScope, 0, int64(len(e.id)), e.observed.read(), nil, given, sent)
		} else {
			err = build.Build(ctx, stages.PassScope, 0, int64(len(e.id)), e.observed.read(), e.sent.read(), given, sent)
		}
		if err != nil {
			return err
		}
		e.given, e.sent = given, sent
	}
	if n > 1 {
		if err := e.sim.Settle(e.stats.read()); err != nil {
			return err
		}
	}
	observed := &table{}
	e.stats = &table{}
	stats, err := e.sim.Simulate(ctx, 0, e.links(), e.hops.read(), e.given.read(), observed, e.stats, nil)
	e.count(stats)
	if e.observed != nil {
		*observed = append(*observed, *e.observed...) // the newest first
	}
	e.observed = observed
	return err
}

// estimate replays the uplinks and returns the FCTs and ideal FCTs; the flows' order is that of the scenario.
func (e *estimation) estimate(ctx context.Context) (fctNS, idealNS []int64, stats stages.SimulateStats, err error) {
	given, senders, slowdowns := &table{}, &table{}, &table{}
	rows := int64(len(e.id))
	if err = e.feedback(0).Build(ctx, stages.SenderScope, 0, rows, e.observed.read(), nil, given, nil); err != nil {
		return nil, nil, stats, err
	}
	if stats, err = e.sim.Replay(ctx, 0, e.links(), e.hops.read(), given.read(), senders, nil); err != nil {
		return nil, nil, stats, err
	}
	_, err = stages.NewSampler(e.net, e.params).SampleReplays(ctx, 0, rows, e.flows().read(), e.observed.read(),
		senders.read(), slowdowns, &table{})
	if err == nil {
		err = columns.ForEach(slowdowns.read(), func(rec arrow.Record) error {
			fctNS = append(fctNS, columns.Int64s(rec, "fct_ns")...)
			idealNS = append(idealNS, columns.Int64s(rec, "ideal_ns")...)
			return nil
		})
	}
	return fctNS, idealNS, stats, err
}
