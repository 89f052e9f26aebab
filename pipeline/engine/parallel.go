package engine

import (
	"context"
	"runtime/pprof"
	"sync"
)

// Parallel does n things on up to so many workers, in any order. Each worker does them with a function of its own, made
// by newWorker. The first error stops the others before their next thing.
func Parallel(ctx context.Context, workers, n int,
	newWorker func() (func(ctx context.Context, i int) error, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan int, n)
	for i := range n {
		queue <- i
	}
	close(queue)
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			pprof.SetGoroutineLabels(ctx) // of the context: --cpu-profile
			do, err := newWorker()
			for i := range queue {
				if err == nil && ctx.Err() == nil {
					err = do(ctx, i)
				}
				if err != nil {
					cancel(err)
				}
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
