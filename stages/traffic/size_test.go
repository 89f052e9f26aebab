package traffic

import (
	"errors"
	"testing"

	"parsimon/stages/workload"
)

// A size of messages that begins with a digit is a number of bytes, from 1 byte to 1 TiB. Any other text is
// the name of a distribution.
func TestSizesOfMessages(t *testing.T) {
	errNamed := errors.New("named")
	named := func(string) (*workload.SizeCDF, error) { return nil, errNamed }
	for text, wantNamed := range map[string]bool{
		"9KB": false, "0.5KB": false, "1B": false, "1TiB": false, "websearch": true, "-1B": true, "/x": true,
		":x": true,
	} {
		_, _, err := parseSize(text, named)
		if errors.Is(err, errNamed) != wantNamed || !wantNamed && err != nil {
			t.Errorf("%q is read as a name: %v, %v", text, !wantNamed, err)
		}
	}
	for _, text := range []string{"", "0B", "0.4B", "1.1TiB", "9 parsecs"} {
		if _, _, err := parseSize(text, named); err == nil || errors.Is(err, errNamed) {
			t.Errorf("%q: %v, want a size that is refused", text, err)
		}
	}
}
