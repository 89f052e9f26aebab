package network

import (
	"errors"
	"strings"
	"testing"
	"time"

	"parsimon/schema/together"
	"parsimon/simkernel/kerneltest"
)

// A panic of the goroutine that reads flows, or of the one that passes on results, is the error of the
// simulation. Without it, one impossible row in a lake from an untrusted source ends the process.
func TestPanicOfAGoroutineIsAnError(t *testing.T) {
	e := randomNetworkOf(kerneltest.Paced(3), 3)
	for name, run := range map[string]func() error{
		"source": func() error {
			next := chunks(&e.flows, 1)
			calls := 0
			n, err := New(e.params, BufferParams{}, e.links, e.hosts, func() (*Flows, error) {
				calls++
				if calls == 3 {
					panic("source")
				}
				return next()
			})
			if err != nil {
				t.Fatal(err)
			}
			return n.Run(t.Context(), 2, nil)
		},
		"results": func() error {
			n := newExampleNetwork(t, &e, BufferParams{}, 10)
			return n.Run(t.Context(), 2, func(*Results) error { panic("results") })
		},
	} {
		err := run()
		var fault *together.Panic
		if !errors.As(err, &fault) || err.Error() != name {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A panic of one worker stops the others, which would otherwise wait for its domain for ever. It is the panic
// of the caller.
func TestPanicOfAWorkerStopsTheOthers(t *testing.T) {
	for _, faulty := range []int{0, 1, 2} {
		e := randomNetworkOf(kerneltest.Paced(3), 3)
		n := newExampleNetwork(t, &e, BufferParams{}, 10)
		n.setRules()
		domainOf := make([]int32, len(e.hosts))
		for node := range domainOf {
			domainOf[node] = int32(node % 3)
		}
		n.layOut(domainOf)
		n.domains[faulty].mail.neighbors = []int32{1000}
		ended := make(chan *together.Panic)
		go func() {
			ended <- together.Catch(func() {
				w := n.startWorkers(3)
				defer w.stop()
				w.run(0, 1)
			})
		}()
		select {
		case fault := <-ended:
			if fault == nil || !strings.Contains(fault.Error(), "index out of range [1000]") {
				t.Errorf("a panic in domain %d: %v", faulty, fault)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("a panic in domain %d: the workers wait for ever", faulty)
		}
	}
}
