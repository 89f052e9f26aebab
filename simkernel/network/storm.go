package network

import (
	"errors"
	"fmt"
)

// A run is declared a retransmission storm when senders that retransmit each packet more than stormRatio
// times have retransmitted stormLeast packets. Such senders rarely finish: they do not slow down after a
// loss, so that senders that go back can keep a link busy forever. The number never falls, so that it does
// not matter when it is compared.
const (
	stormRatio = 20
	stormLeast = 10_000_000
	stormSteps = 1024 // between two looks, which read the counters of all domains
)

// ErrStorm is the error of a simulation in which senders only send lost packets again.
var ErrStorm = errors.New("a retransmission storm")

// storm reports a retransmission storm.
func (n *Network) storm() error {
	packets := int64(0)
	for i := range n.domains {
		packets += n.domains[i].journal.storming
	}
	if packets < stormLeast {
		return nil
	}
	return fmt.Errorf("%w: switches drop packets faster than their senders, which do not slow down after a loss, recover: "+
		"packets were retransmitted more than %d times each; selective recovery (--selective-recovery), TCP (--transport cubic or "+
		"newreno) or a larger --switch-buffer avoid it", ErrStorm, stormRatio)
}
