package whatif

import (
	"context"
	"sync"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
)

// A CableRunner estimates single cables of a sweep while other runners, in this or another process, estimate
// others. Its methods are safe for concurrent use. It is intended for engines that assign cables to processes
// on many machines, as an engine.TaskRunner is for tasks. RunSweep then finds the records of all cables, and
// ranks them.
type CableRunner struct {
	model *pipeline.Model
	plan  SweepPlan
	o     Settings

	mu    sync.Mutex
	flows []sweptFlow // of the base, for all cables; nil before the first needs them
}

// NewCableRunner checks a sweep of a scenario whose flows are in the lake. The variant must not be automatic.
func NewCableRunner(ctx context.Context, base string, plan SweepPlan, o Settings) (*CableRunner, error) {
	o.For = pipeline.ForDifference
	model, err := pipeline.OpenModelIn(ctx, o.Lake, base)
	if err != nil {
		return nil, err
	}
	r := &CableRunner{model: model, plan: plan, o: o}
	s, err := newSweeper(r.base(), nil, plan, o)
	if err != nil {
		return nil, err
	}
	return r, s.check(ctx)
}

// Todo returns the numbers of the cables that are not estimated. The estimate of the scenario must be
// complete.
func (r *CableRunner) Todo(ctx context.Context) (todo []int, err error) {
	err = r.with(ctx, func(s *sweeper) error {
		todo = s.todo()
		return nil
	})
	return todo, err
}

// Do estimates cable n, unless it is estimated already. It may be called repeatedly and concurrently: it
// waits while another attempt estimates the cable.
func (r *CableRunner) Do(ctx context.Context, n int) error {
	return r.with(ctx, func(s *sweeper) error {
		// The attempts make and remove the same scenario, so the lock is not one of its files.
		lock, err := s.base.Lake.LockAlone(ctx, s.record(s.cables[n])+".lock")
		if err != nil {
			return err
		}
		defer lock.Close()
		if s.recorded(s.cables[n], new(SweptCable)) {
			return nil
		}
		if s.flows, err = r.readBase(s.base); err != nil {
			return err
		}
		_, err = s.one(ctx, s.cables[n], r.o.Settings)
		return err
	})
}

// base returns the estimate of the scenario. The runner only reads it.
func (r *CableRunner) base() *pipeline.Estimation {
	return pipeline.ReadOnly(r.model, r.o.Variant, r.o.Settings)
}

// readBase returns the flows of the scenario. It reads them once.
func (r *CableRunner) readBase(base *pipeline.Estimation) ([]sweptFlow, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flows != nil {
		return r.flows, nil
	}
	flows, err := readSwept(base, 0)
	if err == nil {
		r.flows = flows
	}
	return flows, err
}

// with calls do with a sweep that shares the lock of the scenario with the other runners.
func (r *CableRunner) with(ctx context.Context, do func(s *sweeper) error) error {
	session, err := r.model.Lake.LockShared(ctx, lake.Of(r.model.ID()))
	if err != nil {
		return err
	}
	defer session.Close()
	s, err := newSweeper(r.base(), session, r.plan, r.o)
	if err == nil {
		err = s.openBase()
	}
	if err != nil {
		return err
	}
	return do(s)
}
