package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"parsimon/schema/units"
)

var bandwidthUnits = []units.Unit{{Suffix: "Tbps", Factor: 1e12}, {Suffix: "Gbps", Factor: 1e9},
	{Suffix: "Mbps", Factor: 1e6}, {Suffix: "Kbps", Factor: 1e3}, {Suffix: "bps", Factor: 1}}

var speedText = regexp.MustCompile(`(?i)^([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)\s*([kmgt]?)` +
	`(?:b|bps|b/s|bit/s|bits/s|e|be|base.*)?$`)

// A plain number as a speed is an error below leastPlainMbps, because it could be in Mbps or Gbps. From
// leastPlainBps on it is in bps, because 10,000,000 Mbps would be 10 Tbps.
const (
	leastPlainMbps = 1000
	leastPlainBps  = 10_000_000
)

// ErrZeroSpeed is the error for a speed of 0.
var ErrZeroSpeed = errors.New("must be above 0")

// ParseSpeed parses a speed as people and cabling lists write it: 10G, 100Gbps, 25GE, 100gbase-sr4, or a
// plain number. A plain number is in Mbps from 1,000 on and in bps from 10,000,000 on. The result is in bps.
func ParseSpeed(text string) (bps int64, err error) {
	text = strings.TrimSpace(text)
	m := speedText.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("is %q, want a number with a unit such as 10G or 100Gbps", text)
	}
	x, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, fmt.Errorf("is %q: %w", text, errors.Unwrap(err))
	}
	switch {
	case m[2] == "" && strings.Contains(strings.ToLower(text), "base"): // 1000base-t is in Mbps
		x *= 1e6
	case m[1] == text && x > 0:
		switch {
		case x < leastPlainMbps:
			return 0, fmt.Errorf("is %q, which has no unit: write %sM or %sG", text, text, text)
		case x < leastPlainBps:
			x *= 1e6
		}
	}
	x *= map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[strings.ToLower(m[2])]
	switch {
	case x == 0:
		return 0, fmt.Errorf("is %q, %w", text, ErrZeroSpeed)
	case x < 1 || x > 1<<53:
		return 0, fmt.Errorf("is %q, which is out of range", text)
	}
	return int64(math.Round(x)), nil
}

// A SpeedOrShare is a bandwidth, or a share of a cable's current bandwidth.
type SpeedOrShare struct {
	Share        float64 `json:"share,omitempty"`
	BandwidthBps int64   `json:"bandwidth_bps,omitempty"`
}

// ParseSpeedOrShare parses a speed as in ParseSpeed, or a share in percent such as 50%.
func ParseSpeedOrShare(text string) (s SpeedOrShare, err error) {
	if !strings.HasSuffix(text, "%") {
		s.BandwidthBps, err = ParseSpeed(text)
		return s, err
	}
	if s.Share, err = units.ParseShare(text); err != nil || s.Share <= 0 {
		err = fmt.Errorf(
			"is %q, want a speed such as 40G, or a share of the present one above 0%% such as 50%%",
			text,
		)
	}
	return s, err
}

// Of returns the new bandwidth of a cable whose current bandwidth is bps.
func (s SpeedOrShare) Of(bps int64) int64 {
	return s.BandwidthBps + int64(math.Round(min(s.Share*float64(bps), 1<<62)))
}

// nsPerMetre is the propagation delay of copper and fiber, at about two thirds of the speed of light.
const nsPerMetre = 5

// LengthDelay returns the propagation delay of a length, in ns. A plain number is in the given unit or, if
// that is empty, in meters.
func LengthDelay(text, unit string) (int64, error) {
	if strings.Trim(text, "0123456789.eE+-") == "" {
		text += unit
	}
	mm, err := units.ParseFloat(text, units.Length, 1000)
	if err == nil && mm < 0 {
		err = fmt.Errorf("%q is negative", text)
	}
	if err != nil {
		return 0, fmt.Errorf("length %w", err)
	}
	return int64(math.Round(mm * nsPerMetre / 1000)), nil
}

// FormatBps formats a bandwidth for people: 25 Gbps.
func FormatBps(bps int64) string {
	for _, u := range bandwidthUnits {
		if float64(bps) >= u.Factor {
			return strconv.FormatFloat(float64(bps)/u.Factor, 'f', -1, 64) + " " + u.Suffix
		}
	}
	return strconv.FormatInt(bps, 10) + " bps"
}

// ParseDelay parses a propagation delay such as 500ns or 1.2us, or the length of a cable in km or m. The
// result is in ns.
func ParseDelay(text string) (int64, error) {
	if strings.HasSuffix(text, "m") {
		return LengthDelay(text, "")
	}
	v, err := units.Parse(text, units.Duration)
	if err == nil && (v < 0 || v > maxDelayNS) {
		err = fmt.Errorf("is %s, must be 0 to 1,000 s", text)
	}
	return v, err
}

// patternSigns converts a pattern to one of path.Match. There, * does not match a slash, and more characters
// are special.
var patternSigns = strings.NewReplacer("/", "\x00", `\`, `\\`, "[", `\[`)

// MatchPattern reports whether a name matches a pattern. In a pattern, * stands for any text, including
// slashes, and ? stands for one character.
func MatchPattern(pattern, name string) bool {
	matches, err := path.Match(patternSigns.Replace(pattern), strings.ReplaceAll(name, "/", "\x00"))
	return matches && err == nil
}

// MaxFileBytes is the largest size of files that are read into memory: topologies, scenarios, sizes and
// matrices.
const MaxFileBytes = 512 << 20

// Open opens a file for reading. A pipe without a writer is empty.
func Open(file string) (*os.File, error) { return os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) }

// UntilDone returns a reader that fails once the context has ended.
func UntilDone(ctx context.Context, r io.Reader) io.Reader { return untilDone{ctx, r} }

type untilDone struct {
	ctx context.Context //nolint:containedctx // io.Reader has no context
	r   io.Reader
}

// Read implements io.Reader.
func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// ReadFile reads a file of at most 512 MiB that Open opens. Devices are an error, because some of them, such
// as /dev/zero, never end.
func ReadFile(file string) ([]byte, error) {
	f, err := Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the file was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeDevice != 0 {
		return nil, fmt.Errorf("%s: a device, want a file", file)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err == nil && len(data) > MaxFileBytes {
		err = fmt.Errorf("%s: more than %d MiB", file, MaxFileBytes>>20)
	}
	return data, err
}

// CompareNatural compares names such that numbers within them are ordered by value: leaf2 before leaf10.
func CompareNatural(a, b string) int {
	x := a
	y := b
	for x != "" && y != "" {
		nx, restX := leadingDigits(x)
		ny, restY := leadingDigits(y)
		if nx != "" && ny != "" {
			zx := strings.TrimLeft(nx, "0")
			zy := strings.TrimLeft(ny, "0")
			c := cmp.Or(cmp.Compare(len(zx), len(zy)), strings.Compare(zx, zy))
			if c != 0 {
				return c
			}
			x = restX
			y = restY
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x = x[1:]
		y = y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

func leadingDigits(s string) (digits, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}

// Count formats a number of things: "1 cable", "3 switches".
func Count(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "ch"):
		thing += "es"
	default:
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}
