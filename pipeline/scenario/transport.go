package scenario

import (
	"encoding/json"
	"fmt"

	"parsimon/schema/tree"
	"parsimon/schema/units"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// Params returns the transport and its constants.
func (s *Scenario) Params() simkernel.Params {
	p := s.params
	if p.Transport.Traits().RandomMarks {
		p.Seed = s.Seed
	}
	return p
}

func parseWindow(text string) (int64, error) {
	if text == "auto" {
		return simkernel.AutoWindow, nil
	}
	bytes, err := units.Parse(text, units.Bytes)
	if err == nil && (bytes < 1 || bytes > simkernel.MaxWindowBytes) {
		err = fmt.Errorf("is %s, must be auto or 1 to %d bytes", text, int64(simkernel.MaxWindowBytes))
	}
	return bytes, err
}

// readWindow reads key window: a value for all paths, or one for each class of paths (simkernel.WANRoundTripNS); a
// class that is not named has auto.
func (r *scenarioReader) readWindow(f tree.Field) error {
	p := &r.params
	p.SetWindow(simkernel.AutoWindow)
	if f.Is(tree.Object) {
		return f.Object(tree.Keys{
			"lan": tree.ReadParsed(&p.WindowBytes, parseWindow),
			"wan": tree.ReadParsed(&p.WANWindowBytes, parseWindow),
		})
	}
	err := tree.ReadParsed(&p.WindowBytes, parseWindow)(f)
	p.WANWindowBytes = p.WindowBytes
	return err
}

// markKeys are the keys of marking thresholds. Where a file has one, the thresholds of long links are those, too.
var markKeys = []string{"mark_per_gbps", "min_mark_per_gbps", "max_mark_per_gbps"}

// paramsOf returns the default constants for a transport in a scenario: windows are fitted to paths.
func paramsOf(t simkernel.Transport) simkernel.Params {
	p := simkernel.ParamsOf(t)
	p.SetWindow(simkernel.AutoWindow)
	return p
}

// readTransport reads the kind first, since it decides which other keys exist.
func (r *scenarioReader) readTransport(f tree.Field) error {
	if kind := f.Of("kind"); kind.Value != nil {
		name, err := kind.Scalar()
		if err != nil {
			return err
		}
		t, err := simkernel.ParseTransport(name)
		if err != nil {
			return kind.Fail(err)
		}
		if t != r.params.Transport { // the window stays where Set changes the transport
			p := paramsOf(t)
			p.WindowBytes, p.WANWindowBytes = r.params.WindowBytes, r.params.WANWindowBytes
			r.params = p
		}
	}
	keys := tree.Keys{"kind": func(tree.Field) error { return nil }, "window": r.readWindow}
	for _, k := range r.params.Keys() {
		keys[k.Name] = readKey(k)
	}
	for _, name := range markKeys {
		if f.Of(name).Value != nil {
			r.params.StatedMarks = true
		}
	}
	if err := f.Object(keys); err != nil {
		return err
	}
	if r.params.Transport.Traits().AckClocked { // its own is receive_window
		r.params.SetWindow(simkernel.AutoWindow)
	}
	err := r.params.Validate()
	for _, w := range []int64{r.params.WindowBytes, r.params.WANWindowBytes} {
		if packet := r.params.PayloadBytes + r.params.HeaderBytes; err == nil && w != simkernel.AutoWindow && w < packet {
			err = fmt.Errorf("window is %d bytes, must hold a packet of %d", w, packet)
		}
	}
	return f.Fail(err)
}

// readKey reads a value of a key into the constant that it points to.
func readKey(k simkernel.Key) func(tree.Field) error {
	switch k.Unit {
	case simkernel.Bytes:
		return tree.ReadQuantity(k.Int, units.Bytes, int64(k.Min), int64(k.Max))
	case simkernel.Nanoseconds:
		return tree.ReadQuantity(k.Int, units.Duration, int64(k.Min), int64(k.Max))
	case simkernel.BitsPerSec:
		return func(f tree.Field) error {
			var bps int64
			err := tree.ReadBounded(&bps, topology.ParseSpeed, int64(k.Min), int64(k.Max), "bps")(f)
			*k.Float = float64(bps)
			return err
		}
	case simkernel.Count:
		return tree.ReadInt(k.Int, int64(k.Min), int64(k.Max))
	}
	percent, want := k.Unit == simkernel.Share, k.Range()
	if percent {
		want += fmt.Sprintf(", or up to %v%%", 100*k.Max)
	}
	return tree.ReadFloat(k.Float, percent, want, k.Contains)
}

// A canonicalTransport is the canonical form of the transport: the constants that all transports share
// and DCTCP's, and under the transport's name those of it alone. Constants of other transports are
// left out, so that scenarios keep their ids when transports are added.
type canonicalTransport simkernel.Params

// MarshalJSON writes the canonical form.
func (t canonicalTransport) MarshalJSON() ([]byte, error) {
	p := simkernel.Params(t)
	var wan *int64
	if p.WANWindowBytes != p.WindowBytes {
		wan = &p.WANWindowBytes
	}
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
		// Later keys are left out where they say nothing, so that older scenarios keep their ids.
		WANWindowBytes *int64 `json:"wan_window_bytes,omitempty"` // if it differs from the other
		StatedMarks    bool   `json:"stated_marks,omitempty"`     // if windows of long paths are fitted to them
	}{
		p.Transport.String(), p.PayloadBytes, p.HeaderBytes, p.AckBytes, p.WindowBytes, p.Gain,
		p.AdditiveIncreaseBps, p.MinRateBps, p.MarkBytesPerGbps,
		wan, p.StatedMarks && p.WANWindowBytes == simkernel.AutoWindow,
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
