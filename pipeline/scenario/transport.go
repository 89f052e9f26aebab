package scenario

import (
	"encoding/json"
	"fmt"
	"strconv"

	"parsimon/pipeline/units"
	"parsimon/simkernel"
)

// Params returns the transport and its constants.
func (s *Scenario) Params() simkernel.Params {
	p := s.params
	if p.Transport.RandomMarks() {
		p.Seed = s.Seed
	}
	return p
}

// SetTransport changes the transport to the named one ("dcqcn"), with the default constants of that
// transport. Constants that all transports have keep their values; header and ACK sizes keep their
// difference from the default, which depends on the transport.
func (s *Scenario) SetTransport(kind string) error {
	t, err := simkernel.ParseTransport(kind)
	if err != nil || t == s.params.Transport {
		return err
	}
	old, oldDefaults, p := s.params, simkernel.ParamsOf(s.params.Transport), simkernel.ParamsOf(t)
	p.PayloadBytes, p.WindowBytes, p.MinRateBps = old.PayloadBytes, old.WindowBytes, old.MinRateBps
	p.HeaderBytes += old.HeaderBytes - oldDefaults.HeaderBytes
	p.AckBytes += old.AckBytes - oldDefaults.AckBytes
	if err := p.Validate(); err != nil {
		return err
	}
	s.params = p
	return nil
}

// readTransport reads the kind first, since it decides which other keys exist.
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
	keys := map[string]func(field) error{"kind": func(field) error { return nil }}
	for _, k := range r.params.Keys() {
		keys[k.Name] = readKey(k)
	}
	if err := f.object(keys); err != nil {
		return err
	}
	if err := r.params.Validate(); err != nil {
		return f.fail(err)
	}
	return nil
}

// readKey reads a value of a key into the constant that it points to.
func readKey(k simkernel.Key) func(field) error {
	switch k.Unit {
	case simkernel.Bytes:
		return readQuantity(k.Int, units.Bytes, int64(k.Min), int64(k.Max))
	case simkernel.Nanoseconds:
		return readQuantity(k.Int, units.Duration, int64(k.Min), int64(k.Max))
	case simkernel.BitsPerSec:
		return readRate(k.Float, int64(k.Min), int64(k.Max))
	case simkernel.Count:
		return readCount(k.Int, int64(k.Min), int64(k.Max))
	}
	percent, want := k.Unit == simkernel.Share, k.Range()
	if percent {
		want += fmt.Sprintf(", or up to %v%%", 100*k.Max)
	}
	return readFloat(k.Float, percent, want, k.Contains)
}

// readRate reads a bandwidth.
func readRate(to *float64, lo, hi int64) func(field) error {
	return func(f field) error {
		var bps int64
		err := readSpeed(&bps, lo, hi)(f)
		if err == nil {
			*to = float64(bps)
		}
		return err
	}
}

// readCount reads a whole number.
func readCount(to *int64, lo, hi int64) func(field) error {
	return readParsed(to, func(text string) (int64, error) {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("is %q, want a whole number", text)
		}
		if v < lo || v > hi {
			return 0, fmt.Errorf("is %d, must be %d to %d", v, lo, hi)
		}
		return v, nil
	})
}

// A canonicalTransport is the canonical form of the transport: the constants that all transports share
// and DCTCP's, and under the transport's name those of it alone. Constants of other transports are
// left out, so that scenarios keep their ids when transports are added.
type canonicalTransport simkernel.Params

// MarshalJSON writes the canonical form.
func (t canonicalTransport) MarshalJSON() ([]byte, error) {
	p := simkernel.Params(t)
	b, err := json.Marshal(struct {
		Kind                string  `json:"kind"`
		PayloadBytes        int64   `json:"payload_bytes"`
		HeaderBytes         int64   `json:"header_bytes"`
		AckBytes            int64   `json:"ack_bytes"`
		WindowBytes         int64   `json:"window_bytes"`
		Gain                float64 `json:"gain"`
		AdditiveIncreaseBps float64 `json:"additive_increase_bps"`
		MinRateBps          float64 `json:"min_rate_bps"`
		MarkBytesPerGbps    int64   `json:"mark_bytes_per_gbps"`
	}{
		p.Transport.String(), p.PayloadBytes, p.HeaderBytes, p.AckBytes, p.WindowBytes, p.Gain,
		p.AdditiveIncreaseBps, p.MinRateBps, p.MarkBytesPerGbps,
	})
	constants := p.Constants()
	if err != nil || constants == nil {
		return b, err
	}
	own, err := json.Marshal(constants)
	if err != nil {
		return nil, err
	}
	b = append(b[:len(b)-1], fmt.Sprintf(",%q:", p.Transport)...)
	return append(append(b, own...), '}'), nil
}
