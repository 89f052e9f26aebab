package workers

import (
	"testing"
	"time"

	"parsimon/schema/together"
)

// A fake is a domain that has no work, or that panics.
type fake struct {
	number int
	faulty bool
}

func (f *fake) Begin(int64, int64) {
	if f.faulty {
		panic(f.number)
	}
}
func (f *fake) Run(int64)          {}
func (f *fake) Neighbors() []int32 { return nil }
func (f *fake) TakeWork() int64    { return 0 }

// A panic of one worker stops the others, which would otherwise wait for its domain forever. It becomes a
// panic of the caller, which may be another goroutine. Otherwise it would end the process.
func TestPanicOfAWorkerStopsTheOthers(t *testing.T) {
	for faulty := range 3 {
		var domains []Domain
		for n := range 3 {
			domains = append(domains, &fake{n, n == faulty})
		}
		ended := make(chan *together.Panic)
		go func() {
			ended <- together.Catch(func() {
				w := Start(domains, 3, Settings{StepPS: 1})
				defer w.Stop()
				w.Run(1, 0, 1)
			})
		}()
		select {
		case fault := <-ended:
			if fault == nil || fault.Value != faulty {
				t.Errorf("a panic in domain %d: %v", faulty, fault)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("a panic in domain %d: the workers wait forever", faulty)
		}
	}
}

// begins is a domain that is begun with a function.
type begins struct {
	fake
	begin func()
}

func (b *begins) Begin(int64, int64) { b.begin() }

// A panic in the goroutine of another worker ends the epoch, although the caller has work. If it were lost,
// the caller would wait for the domain forever.
func TestPanicOfAnotherGoroutine(t *testing.T) {
	begun := make(chan bool)
	domains := []Domain{&begins{begin: func() { <-begun }}, &begins{begin: func() {
		close(begun)
		panic("fault")
	}}}
	ended := make(chan *together.Panic)
	go func() {
		ended <- together.Catch(func() {
			w := Start(domains, 2, Settings{StepPS: 1})
			defer w.Stop()
			w.Run(1, 0, 1)
		})
	}()
	select {
	case fault := <-ended:
		if fault == nil || fault.Value != "fault" {
			t.Errorf("a panic of another goroutine: %v", fault)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the caller waits forever")
	}
}
