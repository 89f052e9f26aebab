package publishing

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// If a version expires within a day, readers that have just started lose its files.
func TestExpire(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 30 * 24 * time.Hour, "36h": 36 * time.Hour, "1d": 24 * time.Hour,
		"23h": 0, "0d": 0, "-1d": 0, "30": 0,
	} {
		var o Options
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.Declare(f)
		err := f.Parse([]string{"--lake=lake", "--expire=" + text})
		if err != nil {
			t.Fatal(err)
		}
		got, err := o.Expire()
		if got != want || (err == nil) != (want > 0) || (o.Check() == nil) != (want > 0) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}
