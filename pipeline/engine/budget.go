package engine

import "sync"

// A budget is memory that the tasks at work share.
type budget struct {
	mu    sync.Mutex
	freed sync.Cond
	left  int64
	tasks int
}

func newBudget(bytes int64) *budget {
	b := &budget{left: bytes}
	b.freed.L = &b.mu
	return b
}

// acquire waits until a task fits, or no other is at work: one task at a time always goes.
func (b *budget) acquire(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.tasks > 0 && bytes > b.left {
		b.freed.Wait()
	}
	b.left -= bytes
	b.tasks++
}

func (b *budget) release(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += bytes
	b.tasks--
	b.freed.Broadcast()
}
