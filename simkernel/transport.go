package simkernel

import (
	"fmt"
	"math"
	"slices"
)

// A Transport is a congestion control algorithm. All senders of a simulation use the same one.
//
// Paced transports limit a flow by a rate (pacing) and by a window, which is Limits.WindowBytes × rate / line
// rate. Their flows start at line rate and receive one ACK per packet. Transports with Traits.AckClocked are
// TCP: a flow sends when its window allows it. Only the whole network simulates them.
//
// CONTRIBUTING shows how to add a transport: a file with its constants, its sender and its transportSpec, and
// a line in registry.
type Transport uint8

// registry has the spec of every transport. Scenario files name a transport by transportSpec.name. Params are
// stored by that name too, so the numbers may change.
var registry = [...]*transportSpec{
	DCTCP:       &dctcpSpec,
	DCQCN:       &dcqcnSpec,
	TIMELY:      &timelySpec,
	HPCC:        &hpccSpec,
	Swift:       &swiftSpec,
	NewReno:     &newRenoSpec,
	CUBIC:       &cubicSpec,
	DCTCPWindow: &dctcpWindowSpec,
}

// A transportSpec is everything that the simulators and the scenario reader know about one transport.
type transportSpec struct {
	name        string
	version     uint64 // raised, with MethodVersion of package pipeline, when equal input has other results
	headerBytes int64  // added to the header of every packet, and to ACKs: time stamps, telemetry

	defaults  func(p *Params)       // sets the transport's own constants
	constants func(p *Params) any   // pointer to its struct in Params; nil: Params' own fields
	keys      func(p *Params) []Key // its constants as keys of a scenario file
	// relations between constants, beyond the ranges of keys; may be nil
	check     func(p *Params) error
	newSender func() Sender                  // one per flow
	markBytes func(p *Params) (lo, hi int64) // marking thresholds in bytes per Gbps; nil: switches do not mark

	// steadyRTT reports whether a constant round-trip time of rttPS, without marks, leaves the rate at line
	// rate. If it is nil, it always does.
	steadyRTT func(p *Params, l Limits, rttPS int64) bool

	Traits
}

// Traits are the actions of the simulators for a transport, besides calling its sender.
type Traits struct {
	// Embedded means that the sender is the DCTCPSender struct inside the flow. This applies to DCTCP only,
	// which is the default. The fast path of Kernel (cruise) relies on its rules. No other trait can be
	// combined with it.
	Embedded bool
	// RandomMarks means that switches mark at random between two thresholds (MarkRule) instead of at one.
	// Results then depend on Params.Seed, DCQCN.MaxMarking, Case.MarkKey, Case.FlowKey and Case.MaxMarkBytes.
	RandomMarks bool
	// AcksQueue means that ACKs wait in the same FIFO as data at switches. Otherwise they have a FIFO with
	// priority.
	AcksQueue bool
	// Telemetry means that switches write their state into every packet, for AckInfo.Links.
	Telemetry bool
	// DelayBased means that the sender uses only round-trip times, which the link kernel knows when the
	// packet reaches the target, and no property of the packet that is decided later.
	DelayBased bool
	// Timers means that the rate changes when a timer ticks, depending on the marks until then and not on the
	// window. The first ACK beyond the snd_nxt recorded last changes nothing.
	Timers bool
	// UsesHops means that the sender depends on the number of links of its path, so results depend on
	// Case.Hops.
	UsesHops bool
	// AckClocked means that the sender is a TCP, which sends when ACKs arrive. Link cases do not model it.
	AckClocked bool
}

// spec returns the transport's registration. Params.Validate has checked that it exists.
func (t Transport) spec() *transportSpec { return registry[t] }

// Traits returns the actions of the simulators for the transport, besides calling its sender.
func (t Transport) Traits() Traits { return t.spec().Traits }

// Marks reports whether switches mark packets for the transport.
func (t Transport) Marks() bool { return t.spec().markBytes != nil }

// PacedTransports returns the transports that pace packets, which both simulators simulate.
func PacedTransports() []Transport { return transportsWhere(Traits.paced) }

// AckClockedTransports returns the transports that send when ACKs arrive. Only package network simulates
// them.
func AckClockedTransports() []Transport { return transportsWhere(Traits.ackClocked) }

func (t Traits) paced() bool      { return !t.AckClocked }
func (t Traits) ackClocked() bool { return t.AckClocked }

func transportsWhere(has func(Traits) bool) []Transport {
	var all []Transport
	for t, spec := range registry {
		if has(spec.Traits) {
			all = append(all, Transport(t))
		}
	}
	return all
}

// SteadyRTT reports whether a constant round-trip time of rttPS, without marks, leaves the rate at line rate.
func (p *Params) SteadyRTT(l Limits, rttPS int64) bool {
	of := p.Transport.spec().steadyRTT
	return of == nil || of(p, l, rttPS)
}

// A Reducer is a sender that knows the share of the line rate that the links in the telemetry deny its flow.
type Reducer interface{ Reduction() float64 }

// Transports returns the names of all transports.
func Transports() []string {
	names := make([]string, len(registry))
	for i, s := range registry {
		names[i] = s.name
	}
	return names
}

// ParseTransport returns the transport with the given name.
func ParseTransport(name string) (Transport, error) {
	i := slices.IndexFunc(registry[:], func(s *transportSpec) bool { return s.name == name })
	if i < 0 {
		return 0, fmt.Errorf("is %q, must be one of %v", name, Transports())
	}
	return Transport(i), nil
}

// String returns the transport's name.
func (t Transport) String() string {
	if int(t) >= len(registry) {
		return fmt.Sprintf("transport %d", uint8(t))
	}
	return registry[t].name
}

// MarshalText writes the name.
func (t Transport) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a name.
func (t *Transport) UnmarshalText(text []byte) (err error) {
	*t, err = ParseTransport(string(text))
	return err
}

// A Sender is the congestion control of one flow. A simulator calls Start once, and then OnAck for every ACK
// of the flow, in order, until the flow has sent its last byte. Later ACKs have no effect.
//
// A paced sender keeps a rate. Its window follows from it: Limits.WindowBytes × rate / line rate. An
// algorithm that is stated in windows, such as additive increase by one packet, changes the rate in that
// proportion.
//
// If packets are lost, OnAck is called for NACKs, too, and AckInfo.SentBytes falls when the flow goes back to
// the first byte that was not acknowledged. AckedBytes never falls.
//
// If the transport has timers, the simulator calls Tick before it uses the rate: just before OnAck, and when
// a packet is sent. Additional calls in between change nothing. OnAck and Tick report whether the rate
// changed.
//
// The window is computed when an ACK arrives or a packet is sent. If a timer opens or closes it in between,
// the change takes effect the next time the NIC checks the flow. In a link case, the NIC checks a flow only
// for ACKs and sent packets.
type Sender interface {
	Start(p *Params, l Limits)
	OnAck(p *Params, h *AckInfo) (rateChanged bool)
	Tick(p *Params, nowPS int64) (rateChanged bool)
	// NextTick returns a time before which Tick does nothing. Until then the link kernel skips all ACKs
	// except for marked ones and those that end a window. A window begins at an ACK that was not skipped, and
	// ends at the first ACK of more bytes than had been sent then. 0, the default, skips none.
	NextTick() int64
	Rate() (rateBps, lineBps float64)
}

// Rates are the rates of a sender. A sender without timers embeds them: they implement all of Sender but
// Start and OnAck.
type Rates struct {
	RateBps float64 // in [min(MinRateBps, LineBps), LineBps]
	LineBps float64
}

// Rate implements Sender.
func (r *Rates) Rate() (rateBps, lineBps float64) { return r.RateBps, r.LineBps }

// Tick implements Sender.
func (*Rates) Tick(*Params, int64) bool { return false }

// NextTick implements Sender.
func (*Rates) NextTick() int64 { return 0 }

// AckInfo describes one ACK to a sender.
type AckInfo struct {
	NowPS      int64
	RTTPS      int64 // since the packet was sent
	AckedBytes int64 // payload acknowledged so far, this ACK included
	SentBytes  int64 // payload sent so far (snd_nxt)
	Marked     bool

	// With telemetry: what each link that writes telemetry wrote into the packet.
	Links []Telemetry
	// The share of the line rate that the path's other links deny the flow, from Block.Denied; 0 in a whole
	// network, where all links are in Links.
	Feedback float64
}

const (
	// HorizonPS bounds simulated time, from the first start of a flow (26.7 days), so that every sum of times
	// is an int64.
	HorizonPS = math.MaxInt64 / 4
	// Never is later than any simulated time.
	Never = math.MaxInt64
)

// NewSender returns a sender of the transport, to be started.
func NewSender(t Transport) Sender { return t.spec().newSender() }

// floorBps returns the minimum rate of a flow with the given line rate.
func (p *Params) floorBps(lineBps float64) float64 { return min(p.MinRateBps, lineBps) }

// A Key is one constant of a transport, as a scenario file sets it. Exactly one of Int and Float points
// to the field of the Params that Params.Keys was called on.
type Key struct {
	Name     string
	Unit     Unit
	Int      *int64
	Float    *float64
	Min, Max float64
	// Positive excludes 0 where Min is 0.
	Positive bool
}

// A Unit is the dimension of a Key's value.
type Unit uint8

// The units. Values are in the base unit.
const (
	Bytes       Unit = iota // bytes
	Nanoseconds             // ns
	BitsPerSec              // bit/s
	Number                  // a number
	Share                   // a number that may also be written in percent
	Count                   // a whole number
	Packets                 // a number of packets
)

// unitNames follow a range in error texts.
var unitNames = [...]string{Bytes: " bytes", Nanoseconds: " ns", BitsPerSec: " bps", Packets: " packets",
	Count: ""}

// Range describes the allowed values.
func (k *Key) Range() string {
	unit := unitNames[k.Unit]
	if k.Positive {
		return fmt.Sprintf("above %v and at most %v%s", k.Min, k.Max, unit)
	}
	return fmt.Sprintf("%v to %v%s", k.Min, k.Max, unit)
}

// Contains reports whether v is an allowed value.
func (k *Key) Contains(v float64) bool {
	return v >= k.Min && v <= k.Max && !(k.Positive && v <= k.Min)
}

// validate checks the present value.
func (k *Key) validate() error {
	var v float64
	if k.Int != nil {
		v = float64(*k.Int)
	} else {
		v = *k.Float
	}
	if !k.Contains(v) {
		return fmt.Errorf("%s is %v, must be %s", k.Name, v, k.Range())
	}
	return nil
}

const (
	maxTimeNS = 1e12 // 1,000 s
	maxBps    = 1e15
	maxCount  = 1e9
	maxMark   = 1 << 30 // bytes per Gbps
)

// Keys returns the constants that scenario files can set: those that all transports share, and those of
// p's transport. They point into p.
func (p *Params) Keys() []Key { return append(p.sharedKeys(), p.Transport.spec().keys(p)...) }

// Constants returns the struct within p that holds the constants of p's transport alone, or nil if
// these are fields of Params itself.
func (p *Params) Constants() any {
	of := p.Transport.spec().constants
	if of != nil {
		return of(p)
	}
	return nil
}

// Unreachable is a number of bytes that no queue reaches.
const Unreachable = math.MaxInt64
