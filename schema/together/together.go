// Package together runs functions at the same time. A panic of one of them is a panic of the caller, which
// can recover from it. A panic of a goroutine that nobody waits for ends the process.
package together

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// A Panic is the panic of a function that ran in its own goroutine.
type Panic struct {
	Value any
	Stack []byte // of the goroutine
}

// Error describes the panic without its stack trace.
func (p *Panic) Error() string { return fmt.Sprint(p.Value) }

// Catch calls do and returns its panic, or nil.
func Catch(do func()) (caught *Panic) {
	defer func() {
		value := recover()
		if of, again := value.(*Panic); again {
			caught = of
		} else if value != nil {
			caught = &Panic{value, debug.Stack()}
		}
	}()
	do()
	return nil
}

// Run calls all functions at the same time and waits for them. If one panics, Run panics with its *Panic.
func Run(all ...func()) {
	caught := make([]*Panic, len(all))
	var running sync.WaitGroup
	for i, do := range all {
		running.Go(func() { caught[i] = Catch(do) })
	}
	running.Wait()
	for _, p := range caught {
		if p != nil {
			panic(p)
		}
	}
}
