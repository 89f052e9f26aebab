package network

import (
	"errors"
	"testing"

	"parsimon/schema/together"
	"parsimon/simkernel/kerneltest"
)

// A panic of the goroutine that reads flows, or of the one that passes on results, becomes the error of the
// simulation. Otherwise, one impossible row in a lake from an untrusted source would end the process.
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
