package ns3

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
)

// Values of CC_MODE in a configuration of the HPCC simulator, its number of the transport (branch parsimon).
const (
	modeDCQCN  = 1
	modeHPCC   = 3
	modeTIMELY = 7
	modeDCTCP  = 8
)

// telemetryBps are the bandwidths that ns-3's telemetry can encode.
var telemetryBps = []int64{25e9, 50e9, 100e9, 200e9, 400e9}

// noMarkKB is a marking threshold that no queue reaches.
const noMarkKB = 1_000_000

// transportConfig are the values of the keys that depend on the transport.
type transportConfig struct {
	mode            int
	gain            float64
	additive, hyper float64  // bps
	target          float64  // utilisation, HPCC
	stages          int64    // HPCC
	timersUS        [3]int64 // alpha, decrease, increase; DCQCN
	perACK          int      // whether the sender reacts to every ACK
	ackFirst        int      // whether ACKs have priority
}

// transport returns the values for the case's transport.
func (n *netCase) transport() transportConfig {
	p := n.p
	t := transportConfig{mode: modeDCTCP, gain: p.Gain, target: 0.95, timersUS: [3]int64{1, 4, 300}, ackFirst: 1}
	switch p.Transport {
	case simkernel.DCQCN:
		c := &p.DCQCN
		t.mode, t.gain, t.additive, t.hyper, t.ackFirst = modeDCQCN, c.Gain, c.AdditiveBps, c.HyperBps, 0
		t.timersUS = [3]int64{c.AlphaNS / 1000, c.DecreaseNS / 1000, c.IncreaseNS / 1000}
	case simkernel.TIMELY:
		t.mode, t.additive, t.hyper = modeTIMELY, p.TIMELY.AdditiveBps, p.TIMELY.HyperBps
	case simkernel.HPCC:
		c := &p.HPCC
		// ns-3 adds one rate for all hosts: W_AI per round trip of the fastest source.
		fastest := 0.0
		for _, source := range n.c.SourceBps {
			fastest = max(fastest, float64(source))
		}
		t.additive = fastest * c.AdditiveBytes / float64(p.WindowBytes)
		t.mode, t.hyper, t.target, t.stages, t.perACK = modeHPCC, t.additive, c.Target, c.MaxStage, 1
	}
	return t
}

// configWriter writes "KEY value…" lines.
type configWriter struct{ bytes.Buffer }

func (b *configWriter) put(key string, values ...any) {
	b.WriteString(key)
	for _, v := range values {
		fmt.Fprintf(b, " %v", v)
	}
	b.WriteByte('\n')
}

// configuration returns ns-3's configuration for the case. Constants for which it has no key must have the values
// that ns-3 has built in.
func (n *netCase) configuration() ([]byte, error) {
	if err := n.checkParams(); err != nil {
		return nil, err
	}
	var b configWriter
	b.put("ENABLE_QCN", 1)
	b.put("USE_DYNAMIC_PFC_THRESHOLD", 1)
	b.put("PACKET_PAYLOAD_SIZE", n.p.PayloadBytes)
	b.put("TOPOLOGY_FILE", topologyFile)
	b.put("FLOW_FILE", flowsFile)
	b.put("TRACE_FILE", traceFile)
	b.put("TRACE_OUTPUT_FILE", "trace.tr")
	b.put("FCT_OUTPUT_FILE", fctFile)
	b.put("PFC_OUTPUT_FILE", pfcFile)
	b.put("SIMULATOR_STOP_TIME", 1_000_000)
	n.putTransport(&b)
	b.put("LINK_DOWN", 0, 0, 0)
	b.put("ENABLE_TRACE", 0)
	low, high, most := n.marking()
	b.put("KMAX_MAP", high...)
	b.put("KMIN_MAP", low...)
	b.put("PMAX_MAP", most...)
	b.put("BUFFER_SIZE", bufferMB)
	b.put("QLEN_MON_FILE", "qlen.txt")
	b.put("QLEN_MON_START", int64(math.MaxInt64)/2)
	b.put("QLEN_MON_END", int64(math.MaxInt64)/2+1)
	b.put("FIXED_WIN", n.p.WindowBytes)
	b.put("BASE_RTT", n.p.HPCC.BaseRTTNS)
	return b.Bytes(), nil
}

// putTransport writes the keys of congestion control.
func (n *netCase) putTransport(b *configWriter) {
	p, t := n.p, n.transport()
	bps := func(rate float64) string { return fmt.Sprintf("%.0fbps", rate) }
	b.put("CC_MODE", t.mode)
	b.put("ALPHA_RESUME_INTERVAL", t.timersUS[0])
	b.put("RATE_DECREASE_INTERVAL", t.timersUS[1])
	b.put("CLAMP_TARGET_RATE", 0)
	b.put("RP_TIMER", t.timersUS[2])
	b.put("EWMA_GAIN", t.gain)
	b.put("FAST_RECOVERY_TIMES", 1)
	b.put("RATE_AI", bps(t.additive))
	b.put("RATE_HAI", bps(t.hyper))
	b.put("MIN_RATE", bps(p.MinRateBps))
	b.put("DCTCP_RATE_AI", bps(p.AdditiveIncreaseBps))
	b.put("ERROR_RATE_PER_LINK", "0.0000")
	b.put("L2_CHUNK_SIZE", 4000)
	b.put("L2_ACK_INTERVAL", 1) // one ACK per packet
	b.put("L2_BACK_TO_ZERO", 0)
	b.put("HAS_WIN", 1)
	b.put("GLOBAL_T", 1)
	b.put("VAR_WIN", 1) // the window is proportional to the rate
	b.put("FAST_REACT", t.perACK)
	b.put("U_TARGET", t.target)
	b.put("MI_THRESH", t.stages)
	b.put("INT_MULTI", 1)
	b.put("MULTI_RATE", 0)
	b.put("SAMPLE_FEEDBACK", 0)
	b.put("PINT_LOG_BASE", 1.01)
	b.put("PINT_PROB", 1.0)
	b.put("RATE_BOUND", 1) // pacing
	b.put("ACK_HIGH_PRIO", t.ackFirst)
}

// marking returns the maps from bandwidths to marking thresholds in KB, and to the largest marking probability:
// the target's, and for other bandwidths thresholds that no queue reaches.
func (n *netCase) marking() (low, high, most []any) {
	probability := 1.0
	if n.p.Transport == simkernel.DCQCN {
		probability = n.p.DCQCN.MaxMarking
	}
	kb := func(bytes int64) int64 { return min(bytes/1000, noMarkKB) }
	rates := []int64{n.target.bps}
	for _, l := range n.links {
		if !slices.Contains(rates, l.bps) {
			rates = append(rates, l.bps)
		}
	}
	low, high, most = []any{len(rates)}, []any{len(rates)}, []any{len(rates)}
	for i, bps := range rates {
		from, to := int64(noMarkKB), int64(noMarkKB)
		if i == 0 && n.c.Kind != linkcase.FirstHop {
			from, to = kb(n.c.MarkBytes), kb(n.c.MaxMarkBytes)
		}
		low, high = append(low, bps, from), append(high, bps, to)
		most = append(most, bps, fmt.Sprintf("%.4f", probability))
	}
	return low, high, most
}

// checkParams returns an error for constants that ns-3 cannot be configured for.
func (n *netCase) checkParams() error {
	p := n.p
	if p.NeedsPaths() {
		return errors.New("ns-3 gives all flows of a link case one window: state it, as --window 18KB does")
	}
	defaults := simkernel.ParamsOf(p.Transport)
	header := int64(headerBytes)
	switch p.Transport {
	case simkernel.DCTCP:
	case simkernel.DCQCN:
		for _, timer := range []int64{p.DCQCN.AlphaNS, p.DCQCN.DecreaseNS, p.DCQCN.IncreaseNS} {
			if timer%1000 != 0 {
				return fmt.Errorf("ns-3's timers are in whole µs: one of %d ns is not possible", timer)
			}
		}
	case simkernel.TIMELY:
		own, fixed := p.TIMELY, defaults.TIMELY
		own.AdditiveBps, own.HyperBps = fixed.AdditiveBps, fixed.HyperBps
		if own != fixed {
			return errors.New("of timely's constants ns-3 can be given additive_increase and hyper_increase only; " +
				"the others must have their default values")
		}
		header += 8
	case simkernel.HPCC:
		header += 42
		for _, l := range n.links {
			if slices.Contains(n.switches, l.a) && !slices.Contains(telemetryBps, l.bps) {
				return fmt.Errorf("ns-3's telemetry for hpcc supports links of 25, 50, 100, 200 and 400 Gbps only: "+
					"the case has one of %d bps", l.bps)
			}
		}
	default:
		return fmt.Errorf("ns-3 has no transport %v", p.Transport)
	}
	if p.HeaderBytes != header || p.AckBytes != defaults.AckBytes {
		return fmt.Errorf("ns-3's packets for %v have headers of %d bytes and its ACKs have %d bytes: "+
			"%d and %d are not possible", p.Transport, header, defaults.AckBytes, p.HeaderBytes, p.AckBytes)
	}
	return nil
}
