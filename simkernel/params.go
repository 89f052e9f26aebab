package simkernel

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// Params are the transport, its constants and the packet format. All link cases of a scenario share
// them. ParamsOf and DefaultParams return defaults.
type Params struct {
	Transport    Transport
	Seed         uint64 // of random marks (Traits.RandomMarks)
	PayloadBytes int64  // largest payload of a packet
	HeaderBytes  int64  // added to every payload on the wire
	AckBytes     int64  // an ACK on the wire
	// payload in flight at line rate, which scales with rate / line rate; or AutoWindow
	WindowBytes         int64
	WANWindowBytes      int64   // the same for paths whose round trip is WANRoundTripNS or more
	StatedMarks         bool    // thresholds of long links are those by bandwidth, too: see MarkBytes
	Gain                float64 // DCTCP: g (Alizadeh et al., SIGCOMM'10, §3.1); defaults in dctcp.go
	AdditiveIncreaseBps float64 // DCTCP: added to the rate once per window
	MinRateBps          float64 // the rate is never cut below this (nor exceeds line rate)
	MarkBytesPerGbps    int64   // marking threshold per Gbps of a link's bandwidth: key mark_per_gbps

	DCQCN  DCQCNParams
	TIMELY TIMELYParams
	HPCC   HPCCParams
	Swift  SwiftParams
	TCP    TCPParams
}

// ackHeaders are the bytes of Ethernet and IP headers and 12 more in an ACK, as in ns-3, which pads it to 60
// bytes.
const ackHeaders = 14 + 20 + 12

// DefaultParams returns the constants of the paper's DCTCP runs in ns-3.
func DefaultParams() Params { return ParamsOf(DCTCP) }

// ParamsOf returns the default constants of a transport. Packets are those of the paper's ns-3 runs, plus the
// header fields that the transport adds to packets and, beyond the padding, to ACKs.
func ParamsOf(t Transport) Params {
	p := Params{
		Transport:    t,
		PayloadBytes: 1000,
		HeaderBytes:  48,
		AckBytes:     60,
		WindowBytes:  18_000, WANWindowBytes: 18_000,
		MinRateBps: 1e9,
	}
	for _, s := range registry { // of all, so that Params of different transports differ in little
		s.defaults(&p)
	}
	more := t.spec().headerBytes
	p.HeaderBytes += more
	p.AckBytes = max(p.AckBytes, ackHeaders+more)
	return p
}

// Validate returns an error for the first constant that cannot be simulated. It checks the constants that all
// transports share and those of p.Transport.
func (p *Params) Validate() error {
	if int(p.Transport) >= len(registry) {
		return fmt.Errorf("transport is %d, must be below %d", p.Transport, len(registry))
	}
	spec := p.Transport.spec()
	for _, k := range p.sharedKeys() {
		if err := k.validate(); err != nil {
			return err
		}
	}
	for _, w := range []int64{p.WindowBytes, p.WANWindowBytes} {
		if w < 0 || w > MaxWindowBytes {
			return fmt.Errorf("window is %d, must be 1 to %d bytes, or 0 to fit it to each path", w,
				int64(MaxWindowBytes))
		}
	}
	for _, k := range spec.keys(p) {
		if err := k.validate(); err != nil {
			return fmt.Errorf("%s %w", spec.name, err)
		}
	}
	if spec.check != nil {
		return spec.check(p)
	}
	return nil
}

// CheckLinkCases is Validate for simulations of link cases.
func (p *Params) CheckLinkCases() error {
	err := p.Validate()
	if err == nil && p.Transport.Traits().AckClocked {
		err = fmt.Errorf("senders of %v send when ACKs come, which link cases do not model: use --estimator exact "+
			"or auto",
			p.Transport)
	}
	return err
}

// sharedKeys are the constants that all transports have, except the windows.
func (p *Params) sharedKeys() []Key {
	return []Key{
		{Name: "payload", Unit: Bytes, Int: &p.PayloadBytes, Min: 1, Max: 1 << 16},
		{Name: "header", Unit: Bytes, Int: &p.HeaderBytes, Max: 1 << 12},
		{Name: "ack", Unit: Bytes, Int: &p.AckBytes, Max: 1 << 12},
		{Name: "min_rate", Unit: BitsPerSec, Float: &p.MinRateBps, Min: MinBps, Max: maxBps},
	}
}

// AppendIdentity appends bytes that identify how results follow from cases: the versions of the link kernel
// and the transport, and all constants that can affect results. The cache of link cases does not use results
// that are stored under another identity.
func (p Params) AppendIdentity(b []byte) ([]byte, error) {
	if !p.Transport.Traits().RandomMarks {
		p.Seed = 0
	}
	constants, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	b = binary.AppendUvarint(b, Version)
	b = binary.AppendUvarint(b, p.Transport.spec().version)
	return append(b, constants...), nil
}

// MaxPackets is the maximum number of packets of a flow. The blocks of such a flow take 400 MB in each link
// case (BlockLayout).
const MaxPackets = 1 << 28

// Packets returns the number of packets of a flow. All but the last are full.
func (p *Params) Packets(sizeBytes int64) int64 {
	return (sizeBytes + p.PayloadBytes - 1) / p.PayloadBytes
}

// LastBytes returns the size on the wire of the last packet of a flow.
func (p *Params) LastBytes(sizeBytes int64) int64 {
	return sizeBytes - (p.Packets(sizeBytes)-1)*p.PayloadBytes + p.HeaderBytes
}

// SendNS returns the time to send wireBytes at a bandwidth, rounded to ns.
func (p *Params) SendNS(wireBytes, bandwidthBps int64) int64 {
	return NewWireTime(float64(bandwidthBps)).sendNS(wireBytes)
}

// MixKey combines a key and a number to a key or a random number. It is the finalizer of splitmix64 (Steele,
// Lea and Flood, OOPSLA'14) applied to their sum.
func MixKey(a, b uint64) uint64 {
	z := a + (b+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// MixKeys combines a key and several numbers, one after the other.
func MixKeys(key uint64, numbers ...uint64) uint64 {
	for _, number := range numbers {
		key = MixKey(key, number)
	}
	return key
}

// Uniform maps a random number of MixKey to one in (0, 1).
func Uniform(random uint64) float64 { return (float64(random>>11) + 0.5) / (1 << 53) }

// MarkKey returns the value of Case.MarkKey for a link.
func MarkKey(seed uint64, link int32) uint64 { return MixKey(MixKey(seed, 0x6d61726b), uint64(link)) }
