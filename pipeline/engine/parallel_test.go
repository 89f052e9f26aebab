package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// Everything is done once, each worker has a function of its own, and no more workers are made than there are things.
func TestParallel(t *testing.T) {
	for _, c := range []struct{ workers, n, made int }{{1, 10, 1}, {4, 100, 4}, {8, 3, 3}, {4, 0, 0}} {
		times := make([]atomic.Int64, c.n)
		var made atomic.Int64
		err := Parallel(t.Context(), c.workers, c.n, func() (func(context.Context, int) error, error) {
			made.Add(1)
			return func(_ context.Context, i int) error {
				times[i].Add(1)
				return nil
			}, nil
		})
		if err != nil || int(made.Load()) != c.made {
			t.Errorf("%d workers for %d: %d were made, %v", c.workers, c.n, made.Load(), err)
		}
		for i := range times {
			if times[i].Load() != 1 {
				t.Errorf("%d workers: %d is done %d times", c.workers, i, times[i].Load())
			}
		}
	}
}

// The first error stops the rest and is the one returned, of a worker that could not be made too.
func TestParallelStopsAtAnError(t *testing.T) {
	bad := errors.New("bad")
	did := 0
	err := Parallel(t.Context(), 1, 10, func() (func(context.Context, int) error, error) {
		return func(_ context.Context, i int) error {
			did++
			if i == 3 {
				return bad
			}
			return nil
		}, nil
	})
	if !errors.Is(err, bad) || did != 4 {
		t.Errorf("did %d, %v", did, err)
	}
	err = Parallel(t.Context(), 2, 10, func() (func(context.Context, int) error, error) { return nil, bad })
	if !errors.Is(err, bad) {
		t.Errorf("no worker: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = Parallel(ctx, 2, 10, func() (func(context.Context, int) error, error) {
		return func(context.Context, int) error { return errors.New("works after the end") }, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
}
