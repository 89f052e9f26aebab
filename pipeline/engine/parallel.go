package engine

import (
	"context"
	"runtime/pprof"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Parallel does n things on up to so many workers, in any order. Each worker does them with a function of its own, made
// by newWorker. The first error stops the others before their next thing.
func Parallel(ctx context.Context, workers, n int,
	newWorker func() (func(ctx context.Context, i int) error, error)) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(workers, n) {
		g.Go(func() error {
			pprof.SetGoroutineLabels(ctx) // of the context: --cpu-profile
			do, err := newWorker()
			for err == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err = context.Cause(ctx); err == nil {
					err = do(ctx, i)
				}
			}
			return err
		})
	}
	return g.Wait()
}
