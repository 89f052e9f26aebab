package sampled

import (
	"math"
	"testing"

	"parsimon/pipeline/sampling"
)

// The interval of an estimate holds its sampling part, is shifted by the method's error where that was measured, and
// takes both half widths in quadrature. Other quantiles keep their sampling part.
func TestWiden(t *testing.T) {
	s := &sampler{method: []MethodError{{Quantile: 0.99, Error: -0.05, ErrorLo: -0.07, ErrorHi: -0.03}}}
	e := sampling.Estimate{Value: 5, Lo: 4.9, Hi: 5.1}
	lo, hi := s.widen(e, 0.9, 0)
	if math.Abs(lo-4.9) > 1e-9 || math.Abs(hi-5.1) > 1e-9 {
		t.Errorf("p90 %v to %v, want its sampling part", lo, hi)
	}
	// The truth is 3.1% to 7.5% above the estimate, its middle is 5.3%.
	lo, hi = s.widen(e, 0.99, 0)
	if math.Abs(lo-4.9) > 1e-9 || math.Abs(hi-5.418) > 0.002 {
		t.Errorf("p99 %v to %v, want 4.9 to 5.418", lo, hi)
	}
	if lo, hi := s.methodPart(5, 0.99); math.Abs(lo-5/0.97) > 1e-9 || math.Abs(hi-5/0.93) > 1e-9 {
		t.Errorf("method's part %v to %v", lo, hi)
	}
	// The error of windows is one more part.
	s.windowError, s.method = 0.02, nil
	if lo, hi := s.widen(e, 0.9, 0); math.Abs(lo-5*math.Exp(-math.Hypot(0.02, math.Log(5/4.9)))) > 1e-9 || hi < 5.13 {
		t.Errorf("with an error of windows of 2%% p90 is from %v to %v", lo, hi)
	}
	s.windowError = 0
	// What half of the warm-up changes is added.
	if wider, _ := s.widen(e, 0.99, 0.01); math.Abs(wider-4.9*0.99) > 1e-9 {
		t.Errorf("with a warm-up of 1%% p99 is from %v", wider)
	}
}
