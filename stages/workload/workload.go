package workload

import (
	"errors"
	"fmt"
)

// Workload describes flows to generate, as the paper does (§4.1): services, each with a rack matrix, a size
// distribution and log-normal inter-arrival times, and a total rate that brings the most loaded link to MaxLoad.
type Workload struct {
	Services []Service
	// MaxLoad is the expected load of the most loaded link: payload bits per second relative to its bandwidth;
	// above 0.
	MaxLoad float64
	// DurationNS ends the workload before that time, Flows after that many flows. One of them is set.
	DurationNS int64
	Flows      int64
}

// Service is one network-wide arrival process of flows.
type Service struct {
	Name string // label of its flows; names of services differ
	VNet string // virtual network of its flows; may be empty
	// Matrix has a row and a column for each rack of Network.Racks, or of Racks if set. Nil means equal weights
	// from each rack to every other.
	Matrix *Matrix
	Sizes  *SizeCDF
	Sigma  float64 // shape of the log-normal inter-arrival times, 0 (constant) to 8
	Share  float64 // of all bytes, relative to the other services; above 0
	Racks  []int   // places in Network.Racks to which the service is confined; nil for all
	// Hosts to which the service is confined, ascending; nil for all. Racks without any of them are left out, and
	// Matrix has a row and a column for each of the others.
	Hosts []int32
	// Pairs, instead of Matrix and Racks, are the senders and receivers of the service, all of equal weight. Nil
	// for racks.
	Pairs [][2]int32
	// Poisson makes inter-arrival times exponential instead of log-normal. Sigma is then 0.
	Poisson bool
	// TwinOf names another service whose random numbers this one draws too. With the same sizes, inter-arrivals
	// and share it has the same flows at the same times, between its own hosts. Empty for numbers of its own.
	TwinOf string
}

// check returns an error that names the service or the value that is not allowed.
func (w *Workload) check() error {
	if len(w.Services) == 0 {
		return errors.New("the workload has no services")
	}
	names, mayHaveTwin := map[string]bool{}, map[string]bool{}
	for _, s := range w.Services {
		mayHaveTwin[s.Name] = s.TwinOf == ""
	}
	for i, s := range w.Services {
		bad := func(format string, args ...any) error {
			return fmt.Errorf("service %d (%q): %s", i+1, s.Name, fmt.Sprintf(format, args...))
		}
		switch {
		case names[s.Name]:
			return bad("another service has the same name")
		case s.TwinOf != "" && !mayHaveTwin[s.TwinOf]:
			return bad("is a twin of %q, which is no service, or a twin itself", s.TwinOf)
		case s.Pairs != nil && (s.Matrix != nil || s.Racks != nil):
			return bad("has host pairs, and so neither a matrix nor racks")
		case s.Poisson && s.Sigma != 0:
			return bad("has exponential inter-arrivals, and so no sigma")
		case s.Sizes == nil:
			return bad("has no size distribution")
		case !(s.Sigma >= 0 && s.Sigma <= 8):
			return bad("sigma is %v, must be 0 to 8", s.Sigma)
		case !(s.Share > 0) || s.Share > 1e9:
			return bad("share is %v, must be above 0", s.Share)
		}
		names[s.Name] = true
	}
	switch {
	case !(w.MaxLoad > 0) || w.MaxLoad > 1e3:
		return fmt.Errorf("max_load is %v, must be above 0", w.MaxLoad)
	case w.DurationNS < 0 || w.Flows < 0 || (w.DurationNS > 0) == (w.Flows > 0):
		return fmt.Errorf("the workload needs either a duration (it has %d ns) or a number of flows (it has %d)",
			w.DurationNS, w.Flows)
	}
	return nil
}
