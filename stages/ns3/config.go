package ns3

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"parsimon/simkernel"
)

// What the simulator calls the transports (CC_MODE).
const (
	ns3DCQCN  = 1
	ns3HPCC   = 3
	ns3TIMELY = 7
	ns3DCTCP  = 8
)

// ns3Telemetry are the bandwidths that have a code in the simulator's telemetry.
var ns3Telemetry = []int64{25e9, 50e9, 100e9, 200e9, 400e9}

// ns3LargestMark is a marking threshold that no queue reaches, in KB.
const ns3LargestMark = 1_000_000

// configuration is the simulator's configuration for the case. Constants that it has no key for must be
// what it has them fixed at.
func (n *netCase) configuration() ([]byte, error) {
	p := n.p
	if err := n.checkParams(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	put := func(key string, values ...any) {
		b.WriteString(key)
		for _, v := range values {
			fmt.Fprintf(&b, " %v", v)
		}
		b.WriteByte('\n')
	}
	bps := func(rate float64) string { return fmt.Sprintf("%.0fbps", rate) }
	micro := func(ns int64) int64 { return ns / 1000 }

	mode, gain := ns3DCTCP, p.Gain
	var additive, hyper float64
	target, stages, perACK, ackFirst := 0.95, int64(0), 0, 1
	timers := [3]int64{1, 4, 300} // alpha, decrease, increase, in µs: of no use but to DCQCN
	switch p.Transport {
	case simkernel.DCQCN:
		c := &p.DCQCN
		mode, gain, additive, hyper, ackFirst = ns3DCQCN, c.Gain, c.AdditiveBps, c.HyperBps, 0
		timers = [3]int64{micro(c.AlphaNS), micro(c.DecreaseNS), micro(c.IncreaseNS)}
	case simkernel.TIMELY:
		mode, additive, hyper = ns3TIMELY, p.TIMELY.AdditiveBps, p.TIMELY.HyperBps
	case simkernel.HPCC:
		c := &p.HPCC
		// The simulator adds a rate, the same for all hosts: W_AI a round trip at the fastest source's.
		line := 0.0
		for _, source := range n.c.SourceBps {
			line = max(line, float64(source))
		}
		additive = line * c.AdditiveBytes / float64(p.WindowBytes)
		mode, hyper, target, stages, perACK = ns3HPCC, additive, c.Target, c.MaxStage, 1
	}

	put("ENABLE_QCN", 1)
	put("USE_DYNAMIC_PFC_THRESHOLD", 1)
	put("PACKET_PAYLOAD_SIZE", p.PayloadBytes)
	put("TOPOLOGY_FILE", ns3Topology)
	put("FLOW_FILE", ns3Flows)
	put("TRACE_FILE", ns3Trace)
	put("TRACE_OUTPUT_FILE", "trace.tr")
	put("FCT_OUTPUT_FILE", fctFile)
	put("PFC_OUTPUT_FILE", ns3PFC)
	put("SIMULATOR_STOP_TIME", 1_000_000)
	put("CC_MODE", mode)
	put("ALPHA_RESUME_INTERVAL", timers[0])
	put("RATE_DECREASE_INTERVAL", timers[1])
	put("CLAMP_TARGET_RATE", 0)
	put("RP_TIMER", timers[2])
	put("EWMA_GAIN", gain)
	put("FAST_RECOVERY_TIMES", 1)
	put("RATE_AI", bps(additive))
	put("RATE_HAI", bps(hyper))
	put("MIN_RATE", bps(p.MinRateBps))
	put("DCTCP_RATE_AI", bps(p.AdditiveIncreaseBps))
	put("ERROR_RATE_PER_LINK", "0.0000")
	put("L2_CHUNK_SIZE", 4000)
	put("L2_ACK_INTERVAL", 1) // an ACK a packet
	put("L2_BACK_TO_ZERO", 0)
	put("HAS_WIN", 1)
	put("GLOBAL_T", 1)
	put("VAR_WIN", 1) // the window is the rate's share
	put("FAST_REACT", perACK)
	put("U_TARGET", target)
	put("MI_THRESH", stages)
	put("INT_MULTI", 1)
	put("MULTI_RATE", 0)
	put("SAMPLE_FEEDBACK", 0)
	put("PINT_LOG_BASE", 1.01)
	put("PINT_PROB", 1.0)
	put("RATE_BOUND", 1) // pacing
	put("ACK_HIGH_PRIO", ackFirst)
	put("LINK_DOWN", 0, 0, 0)
	put("ENABLE_TRACE", 0)
	low, high, most := n.marking()
	put("KMAX_MAP", high...)
	put("KMIN_MAP", low...)
	put("PMAX_MAP", most...)
	put("BUFFER_SIZE", ns3BufferMB)
	put("QLEN_MON_FILE", "qlen.txt")
	put("QLEN_MON_START", int64(math.MaxInt64)/2)
	put("QLEN_MON_END", int64(math.MaxInt64)/2+1)
	put("FIXED_WIN", p.WindowBytes)
	put("BASE_RTT", p.HPCC.BaseRTTNS)
	return b.Bytes(), nil
}

// marking are the maps from rates to marking thresholds in KB and to the largest probability: the
// target's, and elsewhere what no queue reaches.
func (n *netCase) marking() (low, high, most []any) {
	share := 1.0
	if n.p.Transport == simkernel.DCQCN {
		share = n.p.DCQCN.MaxMarking
	}
	kb := func(bytes int64) int64 { return min(bytes/1000, ns3LargestMark) }
	rates := []int64{n.target.bps}
	seen := map[int64]bool{n.target.bps: true}
	for _, l := range n.links {
		if !seen[l.bps] {
			seen[l.bps] = true
			rates = append(rates, l.bps)
		}
	}
	low, high, most = []any{len(rates)}, []any{len(rates)}, []any{len(rates)}
	for i, bps := range rates {
		from, to := int64(ns3LargestMark), int64(ns3LargestMark)
		if i == 0 && n.c.Kind != simkernel.FirstHop {
			from, to = kb(n.c.MarkBytes), kb(n.c.MaxMarkBytes)
		}
		low, high, most = append(low, bps, from), append(high, bps, to), append(most, bps, fmt.Sprintf("%.4f", share))
	}
	return low, high, most
}

// checkNS3Params refuses constants that the simulator cannot be told.
func (n *netCase) checkParams() error {
	p := n.p
	plain := simkernel.ParamsOf(p.Transport)
	header := int64(ns3Header)
	switch p.Transport {
	case simkernel.DCTCP:
	case simkernel.DCQCN:
		for _, timer := range []int64{p.DCQCN.AlphaNS, p.DCQCN.DecreaseNS, p.DCQCN.IncreaseNS} {
			if timer%1000 != 0 {
				return fmt.Errorf("ns-3's timers are of whole µs: it cannot have one of %d ns", timer)
			}
		}
	case simkernel.TIMELY:
		own, fixed := p.TIMELY, plain.TIMELY
		own.AdditiveBps, own.HyperBps = fixed.AdditiveBps, fixed.HyperBps
		if own != fixed {
			return fmt.Errorf("of timely's constants ns-3 can be told additive_increase and hyper_increase alone; the others must be its own, the defaults")
		}
		header += 8
	case simkernel.HPCC:
		header += 42
		for _, l := range n.links {
			if slices.Contains(n.switches, l.a) && !slices.Contains(ns3Telemetry, l.bps) {
				return fmt.Errorf("ns-3's telemetry for hpcc knows links of 25, 50, 100, 200 and 400 Gbps alone: the case has one of %d bps", l.bps)
			}
		}
	default:
		return fmt.Errorf("ns-3 has no transport %v", p.Transport)
	}
	if p.HeaderBytes != header || p.AckBytes != plain.AckBytes {
		return fmt.Errorf("ns-3's packets have headers of %d bytes and its ACKs %d bytes for %v: it cannot have %d and %d", header, plain.AckBytes, p.Transport, p.HeaderBytes, p.AckBytes)
	}
	return nil
}
