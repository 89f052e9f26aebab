package linkcase

import (
	"math"

	"parsimon/simkernel"
)

// sinceStart returns a time of the flow as Block.SentAt; 0 if it is too late for that.
func (k *Kernel) sinceStart(f *flow, atPS int64) uint32 {
	t := (atPS-(k.c.StartNS[f.row]-k.firstNS)*simkernel.PSPerNS)/simkernel.SentUnitPS + 1
	if t > math.MaxUint32 {
		return 0
	}
	return uint32(t)
}

// timedFrom returns the first packet of a flow that is given feedback by time. The flow's blocks of feedback are
// from..to-1.
func (k *Kernel) timedFrom(from, to uint32) uint32 {
	if k.traits.ByTime && len(k.c.Feedback) > 0 && k.c.Feedback[from].SentAt > 0 && k.c.Feedback[to-1].SentAt > 0 {
		return 1
	}
	return math.MaxUint32
}

// expectNICWait sets the NIC wait of the flow's next packet, which pacing allows to leave at atPS. It is inlined, like
// leaveAt: most packets have their feedback by number.
func (k *Kernel) expectNICWait(f *flow, atPS int64) {
	if f.head >= f.timedFrom {
		k.setNICWait(f, atPS)
	}
}

// leaveAt sets the waits at other hops of a packet of the flow that leaves at atPS.
func (k *Kernel) leaveAt(f *flow, atPS int64) {
	if f.head >= f.timedFrom {
		k.setWaits(f, atPS)
	}
}

func (k *Kernel) setNICWait(f *flow, atPS int64) {
	blocks, i, o, share := k.blocksAt(f, atPS)
	f.nicWaitPS = between(blocks[i].NICWaitNS, blocks[o].NICWaitNS, share)
}

func (k *Kernel) setWaits(f *flow, atPS int64) {
	blocks, i, o, share := k.blocksAt(f, atPS)
	f.upstreamPS = between(blocks[i].UpstreamNS, blocks[o].UpstreamNS, share)
	f.downstreamPS = between(blocks[i].WaitNS, blocks[o].WaitNS, share)
	if k.traits.Hint == simkernel.HintFirstWait {
		if share > 0.5 {
			i = o
		}
		k.clocks[f.slot].deviationPS = deviationPS(&blocks[i])
	}
}

// blocksAt returns the flow's feedback, the places of the two blocks around a time, and how near that is to the second.
func (k *Kernel) blocksAt(f *flow, atPS int64) (blocks []simkernel.Block, i, o int, share float64) {
	clock := &k.clocks[f.slot]
	blocks = k.c.Feedback[f.firstBlock:clock.endBlock]
	at := int64(math.MaxUint32)
	if t := k.sinceStart(f, atPS); t > 0 {
		at = int64(t)
	}
	i = int(clock.given)
	for i > 0 && int64(blocks[i].SentAt) > at {
		i--
	}
	for i+1 < len(blocks) && int64(blocks[i+1].SentAt) <= at {
		i++
	}
	clock.given = uint32(i)
	centre := k.layout.Centre(blocks, i)
	switch {
	case at < centre && i > 0:
		o = i - 1
	case at > centre && i+1 < len(blocks):
		o = i + 1
	default:
		return blocks, i, i, 0
	}
	if other := k.layout.Centre(blocks, o); other != centre {
		share = min(1, max(0, float64(at-centre)/float64(other-centre)))
	}
	return blocks, i, o, share
}

// between returns the wait between two, in ps. The conversion keeps compilers from fusing the product and the sum: same
// bits on every machine.
func between(aNS, bNS int32, share float64) int64 {
	return (int64(aNS) + int64(float64(share*float64(bNS-aNS)))) * simkernel.PSPerNS
}
