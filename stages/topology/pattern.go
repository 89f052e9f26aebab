package topology

import (
	"fmt"
	"strings"
)

// matchPattern reports whether a name matches a pattern in which * stands for any text, slashes
// included, and ? for one character.
func matchPattern(pattern, name string) bool {
	star, back := -1, 0
	i, k := 0, 0
	for i < len(name) {
		switch {
		case k < len(pattern) && pattern[k] == '*':
			star, back = k, i
			k++
		case k < len(pattern) && (pattern[k] == '?' || pattern[k] == name[i]):
			i++
			k++
		case star >= 0:
			back++
			i, k = back, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[k:], "*") == ""
}

// A SpeedRule gives a speed to the cables with an end at a matching device and port.
type SpeedRule struct {
	Device, Port string // patterns
	BandwidthBps int64
}

func (r SpeedRule) String() string {
	return fmt.Sprintf("%s:%s=%s", r.Device, r.Port, strings.ReplaceAll(FormatBps(r.BandwidthBps), " ", ""))
}

// ParseSpeedRule reads DEVICE=SPEED or DEVICE:PORT=SPEED, with * and ? in the patterns, for example
// leaf*:Ethernet*=25G.
func ParseSpeedRule(text string) (SpeedRule, error) {
	at := strings.LastIndex(text, "=")
	if at < 1 {
		return SpeedRule{}, fmt.Errorf("speed rule %q: want DEVICE:PORT=SPEED, such as leaf*:Ethernet*=25G", text)
	}
	device, port, hasPort := strings.Cut(text[:at], ":")
	if !hasPort {
		port = "*"
	}
	bps, err := ParseSpeed(text[at+1:])
	if err != nil {
		return SpeedRule{}, fmt.Errorf("speed rule %q: the speed %w", text, err)
	}
	return SpeedRule{strings.TrimSpace(device), strings.TrimSpace(port), bps}, nil
}

func (r SpeedRule) matches(e end) bool {
	return matchPattern(r.Device, e.device) && matchPattern(r.Port, e.port)
}
