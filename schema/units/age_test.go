package units

import (
	"testing"
	"time"
)

// An age decides what is removed forever. If its unit is misread, data of a month is lost.
func TestParseAge(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "1.5d": 36 * time.Hour, "12h": 12 * time.Hour, "1h30m": 90 * time.Minute,
		"1e9d": maxAge, "2500000h": maxAge,
		"": 0, "d": 0, "0d": 0, "-1d": 0, "NaNd": 0, "0h": 0, "-1h": 0, "30": 0, "30days": 0, "1w": 0, "1d12h": 0,
	} {
		got, err := ParseAge(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}
