package units

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// maxAge is the largest age that ParseAge returns.
const maxAge = 100_000 * 24 * time.Hour

// ParseAge parses an age, such as 30d, 1.5d or 12h. It is above 0. More than 100,000 days are 100,000 days.
func ParseAge(text string) (time.Duration, error) {
	errAge := errors.New("want an age such as 30d or 12h")
	number, isDays := strings.CutSuffix(text, "d")
	if !isDays {
		age, err := time.ParseDuration(text)
		if err != nil || age <= 0 {
			return 0, errAge
		}
		return min(age, maxAge), nil
	}
	days, err := strconv.ParseFloat(number, 64)
	isAge := days > 0 // false for NaN
	if err != nil || !isAge {
		return 0, errAge
	}
	return time.Duration(min(days, maxAge.Hours()/24) * 24 * float64(time.Hour)), nil
}
