package scenario

import (
	"fmt"
	"strconv"

	"parsimon/pipeline/units"
	"parsimon/simkernel"
)

// Params are the transport and its constants.
func (s *Scenario) Params() simkernel.Params {
	p := s.params
	if p.Transport == simkernel.DCQCN {
		p.Seed = s.Seed // of the random marks; the others draw nothing
	}
	return p
}

// SetTransport changes the transport ("dcqcn"), if it is another one, to that one with its default
// constants; those that all have in common stay.
func (s *Scenario) SetTransport(kind string) error {
	t, err := simkernel.ParseTransport(kind)
	if err != nil || t == s.params.Transport {
		return err
	}
	was, plain, now := s.params, simkernel.ParamsOf(s.params.Transport), simkernel.ParamsOf(t)
	now.PayloadBytes, now.WindowBytes, now.MinRateBps = was.PayloadBytes, was.WindowBytes, was.MinRateBps
	now.HeaderBytes += was.HeaderBytes - plain.HeaderBytes // each has its own default
	now.AckBytes += was.AckBytes - plain.AckBytes
	if err := now.Validate(); err != nil {
		return err
	}
	s.params = now
	return nil
}

// readTransport reads the kind, and then the constants that all kinds have and those of this one.
func (r *scenarioReader) readTransport(f field) error {
	if kind, ok := f.value("kind"); ok {
		name, err := kind.text()
		if err != nil {
			return err
		}
		t, err := simkernel.ParseTransport(name)
		if err != nil {
			return kind.fail(err)
		}
		r.params = simkernel.ParamsOf(t)
	}
	p := &r.params
	keys := map[string]func(field) error{
		"kind":     func(field) error { return nil },
		"payload":  readQuantity(&p.PayloadBytes, units.Bytes, 1, 1<<16),
		"header":   readQuantity(&p.HeaderBytes, units.Bytes, 0, 1<<12),
		"ack":      readQuantity(&p.AckBytes, units.Bytes, 0, 1<<12),
		"window":   readQuantity(&p.WindowBytes, units.Bytes, 1, 1<<40),
		"min_rate": readRate(&p.MinRateBps, simkernel.MinBps),
	}
	for key, read := range transportKeys(p) {
		keys[key] = read
	}
	if err := f.object(keys); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return f.fail(err)
	}
	return nil
}

// transportKeys are the keys of one transport's own constants.
func transportKeys(p *simkernel.Params) map[string]func(field) error {
	positive := func(x float64) bool { return x > 0 && x <= 1 }
	upTo := func(hi float64) func(float64) bool { return func(x float64) bool { return x >= 0 && x <= hi } }
	share := upTo(1)
	const maxNS = int64(1e12)
	switch p.Transport {
	case simkernel.DCQCN:
		c := &p.DCQCN
		return map[string]func(field) error{
			"gain":              readFloat(&c.Gain, false, "above 0 and at most 1", positive),
			"alpha_timer":       readQuantity(&c.AlphaNS, units.Duration, 1000, maxNS),
			"decrease_timer":    readQuantity(&c.DecreaseNS, units.Duration, 1000, maxNS),
			"increase_timer":    readQuantity(&c.IncreaseNS, units.Duration, 1000, maxNS),
			"additive_increase": readRate(&c.AdditiveBps, 0),
			"hyper_increase":    readRate(&c.HyperBps, 0),
			"min_mark_per_gbps": readQuantity(&c.MinMarkPerGbps, units.Bytes, 0, 1<<30),
			"max_mark_per_gbps": readQuantity(&c.MaxMarkPerGbps, units.Bytes, 0, 1<<30),
			"max_marking":       readFloat(&c.MaxMarking, true, "0 to 1, or 0% to 100%", share),
		}
	case simkernel.TIMELY:
		c := &p.TIMELY
		return map[string]func(field) error{
			"smoothing":         readFloat(&c.Smoothing, false, "0 to 1", share),
			"decrease":          readFloat(&c.Decrease, false, "0 to 1", share),
			"low":               readQuantity(&c.LowNS, units.Duration, 0, maxNS),
			"high":              readQuantity(&c.HighNS, units.Duration, 0, maxNS),
			"min_rtt":           readQuantity(&c.MinRTTNS, units.Duration, 1, maxNS),
			"additive_increase": readRate(&c.AdditiveBps, 0),
			"hyper_increase":    readRate(&c.HyperBps, 0),
			"hyper_after":       readCount(&c.HyperAfter),
		}
	case simkernel.HPCC:
		c := &p.HPCC
		return map[string]func(field) error{
			"target":            readFloat(&c.Target, true, "above 0 and at most 2", func(x float64) bool { return x > 0 && x <= 2 }),
			"max_stage":         readCount(&c.MaxStage),
			"additive_increase": readFloat(&c.AdditiveBytes, false, "0 to 1e12 bytes", upTo(1e12)),
			"base_rtt":          readQuantity(&c.BaseRTTNS, units.Duration, 1, maxNS),
		}
	case simkernel.Swift:
		c := &p.Swift
		return map[string]func(field) error{
			"base_target":       readQuantity(&c.BaseTargetNS, units.Duration, 1, maxNS),
			"per_hop":           readQuantity(&c.PerHopNS, units.Duration, 0, 1e9),
			"additive_increase": readFloat(&c.Additive, false, "0 to 1e6 packets", upTo(1e6)),
			"decrease":          readFloat(&c.Decrease, false, "0 to 1", share),
			"max_decrease":      readFloat(&c.MaxDecrease, false, "0 to 1", share),
			"scaling":           readQuantity(&c.ScalingNS, units.Duration, 0, maxNS),
			"min_scaling":       readFloat(&c.MinScaling, false, "0 to 1e9 packets", upTo(1e9)),
			"max_scaling":       readFloat(&c.MaxScaling, false, "0 to 1e9 packets", upTo(1e9)),
		}
	default:
		return map[string]func(field) error{
			"gain":              readFloat(&p.Gain, false, "above 0 and at most 1", positive),
			"additive_increase": readRate(&p.AdditiveIncreaseBps, 0),
			"mark_per_gbps":     readQuantity(&p.MarkBytesPerGbps, units.Bytes, 0, 1<<30),
		}
	}
}

// readRate reads a bandwidth of at least lo.
func readRate(to *float64, lo int64) func(field) error {
	return func(f field) error {
		var bps int64
		err := readQuantity(&bps, units.Bandwidth, lo, 1e15)(f)
		if err == nil {
			*to = float64(bps)
		}
		return err
	}
}

// readCount reads a number of times, up to a billion.
func readCount(to *int64) func(field) error {
	return readParsed(to, func(text string) (int64, error) {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("is %q, want a whole number", text)
		}
		if v < 0 || v > 1e9 {
			return 0, fmt.Errorf("is %d, must be 0 to 1e9", v)
		}
		return v, nil
	})
}
