package simkernel

import (
	"fmt"
	"math"
)

// Params are the transport, its constants and those of the packets. Every link case of a scenario
// shares them. Defaults: DefaultParams, ParamsOf.
type Params struct {
	Transport           Transport
	Seed                uint64  // of the draws of a transport that has any (DCQCN's marks)
	PayloadBytes        int64   // largest payload of a packet
	HeaderBytes         int64   // added to every payload on the wire
	AckBytes            int64   // an ACK on the wire
	WindowBytes         int64   // payload in flight at line rate; scaled by rate / line rate
	Gain                float64 // DCTCP's g (Alizadeh et al., SIGCOMM'10, §3.1)
	AdditiveIncreaseBps float64 // added to DCTCP's rate once a window
	MinRateBps          float64 // the rate is never cut below (nor is it ever above line rate)
	MarkBytesPerGbps    int64   // marking threshold per Gbps of a link's total bandwidth (DCTCP)

	DCQCN  DCQCNParams
	TIMELY TIMELYParams
	HPCC   HPCCParams
	Swift  SwiftParams
}

// ParamsOf are the default constants of a transport's runs. TIMELY's and Swift's packets and ACKs carry
// a time stamp of 8 bytes, HPCC's the telemetry of up to five links, 42 bytes (HPCC, §4.1).
func ParamsOf(t Transport) Params {
	p := DefaultParams()
	p.Transport = t
	more := [transports]int64{TIMELY: 8, Swift: 8, HPCC: 42}[t]
	p.HeaderBytes += more
	p.AckBytes += more
	return p
}

// DefaultParams are the constants of the paper's DCTCP runs in ns-3.
func DefaultParams() Params {
	return Params{
		PayloadBytes:        1000,
		HeaderBytes:         48,
		AckBytes:            60,
		WindowBytes:         18_000,
		Gain:                1.0 / 16,
		AdditiveIncreaseBps: 615e6,
		MinRateBps:          1e9,
		MarkBytesPerGbps:    3000,
		DCQCN:               DefaultDCQCN(),
		TIMELY:              DefaultTIMELY(),
		HPCC:                DefaultHPCC(),
		Swift:               DefaultSwift(),
	}
}

// Validate reports the first constant that cannot be simulated.
func (p *Params) Validate() error {
	switch {
	case p.Transport >= transports:
		return fmt.Errorf("transport is %d, must be below %d", p.Transport, transports)
	case p.PayloadBytes < 1 || p.PayloadBytes > 1<<16:
		return fmt.Errorf("payload_bytes is %d, must be 1 to 65,536", p.PayloadBytes)
	case p.HeaderBytes < 0 || p.HeaderBytes > 1<<12:
		return fmt.Errorf("header_bytes is %d, must be 0 to 4,096", p.HeaderBytes)
	case p.AckBytes < 0 || p.AckBytes > 1<<12:
		return fmt.Errorf("ack_bytes is %d, must be 0 to 4,096", p.AckBytes)
	case p.WindowBytes < 1 || p.WindowBytes > 1<<40:
		return fmt.Errorf("window_bytes is %d, must be 1 to 2^40", p.WindowBytes)
	case !(p.Gain > 0 && p.Gain <= 1):
		return fmt.Errorf("gain is %v, must be above 0 and at most 1", p.Gain)
	case !(p.AdditiveIncreaseBps >= 0 && p.AdditiveIncreaseBps <= 1e15):
		return fmt.Errorf("additive_increase_bps is %v, must be 0 to 1e15", p.AdditiveIncreaseBps)
	case !(p.MinRateBps >= MinBps && p.MinRateBps <= 1e15):
		return fmt.Errorf("min_rate_bps is %v, must be 10,000 to 1e15", p.MinRateBps)
	case p.MarkBytesPerGbps < 0 || p.MarkBytesPerGbps > 1<<30:
		return fmt.Errorf("mark_bytes_per_gbps is %d, must be 0 to 2^30", p.MarkBytesPerGbps)
	}
	switch p.Transport {
	case DCQCN:
		return p.DCQCN.validate()
	case TIMELY:
		return p.TIMELY.validate()
	case HPCC:
		return p.HPCC.validate()
	case Swift:
		return p.Swift.validate()
	}
	return nil
}

// MarkBytes is the marking threshold of a link of that total bandwidth: a packet that leaves more
// behind it when it starts to be sent is marked (DCTCP: 3 KB per Gbps by default, 30 KB at 10 Gbps),
// or can be (DCQCN). Where marks mean nothing it is out of reach.
func (p *Params) MarkBytes(bandwidthBps int64) int64 {
	switch p.Transport {
	case DCTCP:
		return perGbps(p.MarkBytesPerGbps, bandwidthBps)
	case DCQCN:
		return perGbps(p.DCQCN.MinMarkPerGbps, bandwidthBps)
	}
	return math.MaxInt64
}

// MaxMarkBytes is how much a packet leaves behind at most that is not marked for certain.
func (p *Params) MaxMarkBytes(bandwidthBps int64) int64 {
	if p.Transport == DCQCN {
		return perGbps(p.DCQCN.MaxMarkPerGbps, bandwidthBps)
	}
	return p.MarkBytes(bandwidthBps)
}

// perGbps is a threshold at a link of that bandwidth.
func perGbps(bytes, bandwidthBps int64) int64 {
	const gbps = 1_000_000_000 // in two parts, or the largest valid thresholds overflow
	return bytes*(bandwidthBps/gbps) + bytes*(bandwidthBps%gbps)/gbps
}

// Packets is the number of packets of a flow of that size: all are full but the last.
func (p *Params) Packets(sizeBytes int64) int64 {
	return (sizeBytes + p.PayloadBytes - 1) / p.PayloadBytes
}

// SendNS is the time to send so many bytes on the wire at a bandwidth, rounded to ns.
func (p *Params) SendNS(wireBytes, bandwidthBps int64) int64 {
	return (newWireTime(float64(bandwidthBps)).ps(wireBytes) + psPerNS/2) / psPerNS
}
