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

// Sizes of messages follow from words in the names of services, in any case. Others are assumed.
func TestDefaultSizes(t *testing.T) {
	for service, want := range map[string]int64{"HDFS": 64_000, "my-ceph-1": 64_000, "backup": 64_000,
		"kafka": 16_000, "Broker": 16_000} {
		bytes, known := DefaultSize(service)
		if bytes != want || !known {
			t.Errorf("%s: messages of %d bytes, known %v, want %d", service, bytes, known, want)
		}
	}
	bytes, known := DefaultSize("web")
	if bytes != 16_000 || known {
		t.Errorf("web: messages of %d bytes, known %v, want an assumption of 16000", bytes, known)
	}
}

// Sizes times a factor are rounded to a byte, and are never 0.
func TestFactoredSizes(t *testing.T) {
	for _, c := range []struct {
		bytes  int64
		factor float64
		want   int64
	}{{16_000, 3, 48_000}, {10, 0.25, 3}, {9, 0.25, 2}, {1, 0.1, 1}, {1, 1, 1}} {
		got := FactoredSize(c.bytes, c.factor)
		if got != c.want {
			t.Errorf("%d bytes times %v are %d, want %d", c.bytes, c.factor, got, c.want)
		}
	}
}
