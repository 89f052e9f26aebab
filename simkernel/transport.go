package simkernel

import "fmt"

// A Transport is a congestion control that senders can run. Each has a file of its own, with its
// sources. All are bound by a rate and by a window, which is the rate's share of the line's times
// Params.WindowBytes; all start at line rate and get an ACK for every packet.
type Transport uint8

// The transports.
const (
	DCTCP Transport = iota
	DCQCN
	TIMELY
	HPCC
	Swift
	transports // their number
)

var transportNames = [transports]string{"dctcp", "dcqcn", "timely", "hpcc", "swift"}

// Transports are the names of all.
func Transports() []string { return append([]string(nil), transportNames[:]...) }

// ParseTransport is the transport of a name.
func ParseTransport(name string) (Transport, error) {
	for i, n := range transportNames {
		if n == name {
			return Transport(i), nil
		}
	}
	return 0, fmt.Errorf("is %q, must be one of %v", name, transportNames)
}

// String is the transport's name.
func (t Transport) String() string {
	if t >= transports {
		return fmt.Sprintf("transport %d", uint8(t))
	}
	return transportNames[t]
}

// MarshalText writes the name.
func (t Transport) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a name.
func (t *Transport) UnmarshalText(text []byte) (err error) {
	*t, err = ParseTransport(string(text))
	return err
}

// A sender is the transport of one flow. A simulator calls start once, and then hear for every ACK
// of the flow in order until the flow has sent its last byte (later ACKs change nothing that
// matters). A transport with timers has tick called with every moment before its rate is asked for
// at that moment: just before hear, and when a packet is sent. How often it is called in between
// changes nothing. hear and tick answer whether the rate has changed.
//
// The window holds from the ACK or the sending at which it was worked out to the next: a timer
// neither opens nor closes it in between, as a NIC looks at a flow only then.
type sender interface {
	start(p *Params, lineBps float64, hops int) // hops: links of the path
	onAck(p *Params, h *ackInfo) (rateChanged bool)
	tick(p *Params, nowPS int64) (rateChanged bool)
	// nextTick is a moment before which tick does nothing, and before which hear changes nothing unless
	// the ACK is marked or the first beyond the snd_nxt at the last such ACK.
	nextTick() int64
	rate() (rateBps, lineBps float64)
}

// ackInfo is what one ACK tells.
type ackInfo struct {
	nowPS      int64
	rttPS      int64 // since the packet was sent
	ackedBytes int64 // payload acknowledged so far, this ACK included
	sentBytes  int64 // payload sent so far (snd_nxt)
	marked     bool

	// HPCC: what the links that tell wrote into the packet, their bandwidths, and the share of the
	// line's rate that links elsewhere do not let the flow have, as far as it is known.
	links    []telemetry
	bps      []float64
	feedback float64
}

// never is later than any time a sender is told.
const never = unbounded

// newSender makes a sender of the transport; start puts it to work.
func newSender(t Transport) sender {
	switch t {
	case DCQCN:
		return &dcqcn{}
	case TIMELY:
		return &timely{}
	case HPCC:
		return &hpcc{}
	case Swift:
		return &swift{}
	default:
		return &dctcp{}
	}
}

// windowAt is how much payload may be in flight at a rate.
func (p *Params) windowAt(rateBps, lineBps float64) int64 {
	return max(1, int64(float64(p.WindowBytes)*rateBps/lineBps))
}

// floorBps is the rate that a flow of that line rate is never cut below.
func (p *Params) floorBps(lineBps float64) float64 { return min(p.MinRateBps, lineBps) }
