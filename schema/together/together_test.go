package together

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

// All functions run, and at the same time: each waits for the other.
func TestRun(t *testing.T) {
	ping := make(chan bool)
	var ran atomic.Int32
	Run(func() {
		ping <- true
		ran.Add(1)
	}, func() {
		<-ping
		ran.Add(1)
	})
	if ran.Load() != 2 {
		t.Errorf("%d of 2 functions ran", ran.Load())
	}
}

// A panic of a function is a panic of the caller, after the other functions have returned. Otherwise, an
// impossible row in a lake from an untrusted source would end the process.
func TestPanicIsThatOfTheCaller(t *testing.T) {
	var others atomic.Int32
	caught := Catch(func() {
		Run(func() { others.Add(1) }, func() { _ = []int{}[others.Load()*0+1] }, func() { others.Add(1) })
	})
	if caught == nil || !strings.Contains(caught.Error(), "index out of range") {
		t.Fatalf("caught %v", caught)
	}
	if others.Load() != 2 {
		t.Errorf("%d other functions ran, want 2", others.Load())
	}
	if !strings.Contains(string(caught.Stack), "TestPanicIsThatOfTheCaller") {
		t.Errorf("the stack is not that of the function:\n%s", caught.Stack)
	}
	quiet := Catch(func() {})
	if quiet != nil {
		t.Errorf("caught %v", quiet)
	}
}

// Do returns the error of the function, or its panic. Without the first, a full disk would not be noticed.
func TestDoReturnsErrorsAndPanics(t *testing.T) {
	full := errors.New("full")
	for _, want := range []error{nil, full} {
		if err := Do(func() error { return want }); !errors.Is(err, want) {
			t.Errorf("the error %v became %v", want, err)
		}
	}
	err := Do(func() error { panic("full") })
	caught, is := errors.AsType[*Panic](err)
	if !is || caught.Value != "full" {
		t.Errorf("the panic became %v", err)
	}
}
