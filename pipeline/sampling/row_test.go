package sampling

import (
	"math"
	"testing"
)

// An interval includes its sampling part, the error of windows and the effect of half of the warm-up.
func TestWiden(t *testing.T) {
	s := &sampler{}
	e := quantileEstimate{Value: 5, Lo: 4.9, Hi: 5.1}
	lo, hi := s.widen(e, 0)
	if math.Abs(lo-4.9) > 1e-9 || math.Abs(hi-5.1) > 1e-9 {
		t.Errorf("%v to %v, want the sampling part", lo, hi)
	}
	if lo, hi := s.widen(e, 0.01); math.Abs(lo-4.9*0.99) > 1e-9 || math.Abs(hi-5.1*1.01) > 1e-9 {
		t.Errorf("%v to %v with a warm-up of 1%%", lo, hi)
	}
	s.windowError = 0.02
	if lo, hi := s.widen(e, 0); math.Abs(lo-4.9*0.98) > 1e-9 || math.Abs(hi-5.1*1.02) > 1e-9 {
		t.Errorf("%v to %v with an error of windows of 2%%", lo, hi)
	}
}
