package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// Parallel handles each item once, and never uses more workers than requested.
func TestParallel(t *testing.T) {
	for _, c := range []struct{ workers, n int }{{1, 10}, {4, 100}, {8, 3}, {4, 0}} {
		times := make([]atomic.Int64, c.n)
		var now, most atomic.Int64
		err := Parallel(t.Context(), c.workers, c.n, func(_ context.Context, i int) error {
			for n, before := now.Add(1), most.Load(); n > before && !most.CompareAndSwap(before, n); {
				before = most.Load()
			}
			times[i].Add(1)
			now.Add(-1)
			return nil
		})
		if err != nil || int(most.Load()) > c.workers {
			t.Errorf("%d workers for %d: %d at a time, %v", c.workers, c.n, most.Load(), err)
		}
		for i := range times {
			if times[i].Load() != 1 {
				t.Errorf("%d workers: %d is done %d times", c.workers, i, times[i].Load())
			}
		}
	}
}

// The first error stops the other workers and is returned.
func TestParallelStopsAtAnError(t *testing.T) {
	bad := errors.New("bad")
	did := 0
	err := Parallel(t.Context(), 1, 10, func(_ context.Context, i int) error {
		did++
		if i == 3 {
			return bad
		}
		return nil
	})
	if !errors.Is(err, bad) || did != 4 {
		t.Errorf("did %d, %v", did, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = Parallel(ctx, 2, 10, func(context.Context, int) error { return errors.New("works after the end") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
}
