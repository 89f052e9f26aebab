package simkernel

// NewReno is TCP with the congestion avoidance of RFC 5681 and the loss recovery of RFC 6675.
const NewReno Transport = 5

var newRenoSpec = tcpSpec("newreno", 1, func() growth { return newReno{} })

type newReno struct{ unmarked }

func (newReno) start(*Params) {}

// avoid raises the window by one packet for each window of bytes that is acknowledged (RFC 5681, §3.1, last way).
func (newReno) avoid(t *TCP, _, newBytes int64) int64 {
	if t.credit += newBytes; t.credit < t.windowB {
		return t.windowB
	}
	t.credit -= t.windowB
	return t.windowB + t.smss
}

// reduce halves what is in flight (RFC 5681, §3.1, eq. 4).
func (newReno) reduce(t *TCP, flightBytes int64, _ bool) int64 {
	t.credit = 0
	return max(flightBytes/2, 2*t.smss)
}
