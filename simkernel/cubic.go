package simkernel

import "math"

// CUBIC is TCP with the congestion avoidance of RFC 9438. HyStart++ is not done: slow start is that of RFC 5681.
const CUBIC Transport = 6

var cubicSpec = tcpSpec("cubic", 2, func() growth { return &cubic{} })

// Constants of RFC 9438: §4.1.2 and §4.6. cubicAlpha is α of the Reno-friendly region, §4.3.
const (
	cubicC     = 0.4
	cubicBeta  = 0.7
	cubicAlpha = 3 * (1 - cubicBeta) / (1 + cubicBeta)
)

// cubic is the state of congestion avoidance. Windows are in packets. The conversions prevent fused multiply-add.
type cubic struct {
	unmarked
	window  float64 // cwnd, exactly; 0: no epoch has begun
	maximum float64 // W_max; 0: not known, or after a timeout
	prior   float64 // cwnd_prior
	reno    float64 // W_est
	k       float64 // K, in seconds
	epochPS int64
}

func (c *cubic) start(*Params) { *c = cubic{} }

// at returns W_cubic at a time after the begin of the epoch (§4.2, fig. 1).
func (c *cubic) at(seconds float64) float64 {
	x := seconds - c.k
	return float64(float64(cubicC*float64(x*x))*x) + c.maximum
}

func (c *cubic) avoid(t *TCP, nowPS, newBytes int64) int64 {
	if c.window == 0 {
		c.window, c.epochPS, c.k = float64(t.windowB)/float64(t.smss), nowPS, 0
		c.reno = c.window
		if c.maximum > c.window {
			c.k = math.Cbrt((c.maximum - c.window) / cubicC) // §4.2, fig. 2
		} else {
			c.maximum = c.window
		}
	}
	packets := float64(newBytes) / float64(t.smss)
	seconds := float64(nowPS-c.epochPS) / 1e12
	alpha := cubicAlpha
	if c.reno >= c.prior {
		alpha = 1
	}
	c.reno += float64(alpha * packets / c.window)
	if c.at(seconds) < c.reno { // §4.3: Reno-friendly
		c.window = max(c.window, c.reno)
	} else { // §4.4 and §4.5
		target := min(max(c.at(seconds+float64(t.srttPS)/1e12), c.window), 1.5*c.window)
		c.window += float64(packets * (target - c.window) / c.window)
	}
	return int64(float64(c.window * float64(t.smss)))
}

// reduce is §4.6 with the fast convergence of §4.7, and §4.8 for timeouts.
func (c *cubic) reduce(t *TCP, flightBytes int64, timeout bool) int64 {
	window := float64(t.windowB) / float64(t.smss)
	c.prior = window
	if window < c.maximum {
		window *= (1 + cubicBeta) / 2
	}
	c.maximum, c.window = window, 0
	if timeout {
		c.maximum = 0
	}
	return max(int64(float64(cubicBeta*float64(flightBytes))), 2*t.smss)
}
