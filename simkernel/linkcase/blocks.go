package linkcase

import (
	"math"

	"parsimon/simkernel"
)

// loadBlock reads the feedback of the flow's next packets, block f.block.
func (k *Kernel) loadBlock(f *flow) {
	f.nextBlockAt = k.layout.End(f.head)
	if len(k.c.Feedback) > 0 {
		b := &k.c.Feedback[f.block]
		f.nicWaitPS = int64(b.NICWaitNS) * simkernel.PSPerNS
		f.upstreamPS = int64(b.UpstreamNS) * simkernel.PSPerNS
		f.downstreamPS = int64(b.WaitNS) * simkernel.PSPerNS
		f.marks = b.Marks
	}
}

// advanceBlock ends a block, whose last packet has just been sent, and begins the next one.
func (k *Kernel) advanceBlock(f *flow) {
	k.recordBlock(f, f.nextBlockAt-k.layout.Start(f.nextBlockAt-1))
	f.block++
	k.loadBlock(f)
}

// recordBlock records the mean wait of the present block, which has that many packets.
func (k *Kernel) recordBlock(f *flow, packets uint32) {
	if f.waitPS == 0 {
		return // nothing to record: Observed is zero
	}
	if len(k.r.Observed) > 0 && packets > 0 {
		k.recordWait(f.block, f.waitPS, int64(packets))
	}
	f.waitPS = 0
}

// recordWait records the mean wait of a block with that many packets, whose waits sum up to sumPS.
func (k *Kernel) recordWait(block uint32, sumPS, packets int64) {
	mean := sumPS / simkernel.PSPerNS
	if packets > 1 {
		mean = (mean + packets/2) / packets
	}
	k.r.Observed[block].WaitNS = int32(min(mean, math.MaxInt32))
}
