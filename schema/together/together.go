// Package together runs functions at the same time. A panic of one of them is a panic of the caller, which
// can recover from it. Without this package, a panic of a goroutine ends the process.
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

// Do calls do and returns its error. If do panics, the error is its *Panic.
func Do(do func() error) (err error) {
	fault := Catch(func() { err = do() })
	if fault != nil {
		return fault
	}
	return err
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
