package stages

import (
	"parsimon/simkernel"
)

// hasTimes reports whether it is known when the packets of these blocks of a flow left their host.
func hasTimes(blocks []simkernel.Block) bool {
	return len(blocks) > 0 && blocks[0].SentAt > 0 && blocks[len(blocks)-1].SentAt > 0
}

// sentAt returns the time of block b of the feedback; 0 if it is not by time.
func (x *FeedbackBuilder) sentAt(b int) uint32 {
	if b < len(x.common) {
		return x.common[b].SentAt
	}
	return 0
}

// align replaces what the hops send, with a transport that has feedback by time, by what they send at common times:
// those of the hop whose case sends the flow's last packets latest, so that the times of all cases are covered. Hops
// without times, which ones that are imputed may be, stay as they are. The first blocks are taken by number
// (simkernel.BlockLayout.ByNumber).
func (x *FeedbackBuilder) align() {
	x.common = x.common[:0]
	if !x.params.Transport.FeedbackByTime() {
		return
	}
	latest := -1
	for h, blocks := range x.hops {
		if hasTimes(blocks) && (latest < 0 || endOf(blocks) > endOf(x.hops[latest])) {
			latest = h
		}
	}
	if latest < 0 || x.layout.ByNumber(len(x.hops[latest])-1) {
		return
	}
	x.common = append(x.common, x.hops[latest]...)
	for h, blocks := range x.hops {
		if h != latest && hasTimes(blocks) {
			x.sampled = x.sample(x.sampled[:0], blocks, x.common)
			x.hops[h] = append(x.hops[h][:0], x.sampled...)
			x.hopBlocks[h] = x.hops[h]
		}
	}
}

// endOf returns when the last block was sent.
func endOf(blocks []simkernel.Block) uint32 { return blocks[len(blocks)-1].SentAt }

// sample appends what the blocks say of the times of others, by interpolation of waits; both have times. After the last
// it is what that says. What is by number is appended as it is.
func (x *FeedbackBuilder) sample(out, blocks, times []simkernel.Block) []simkernel.Block {
	at, centre := 0, x.layout.Centre(blocks, 0)
	next := int64(0)
	if len(blocks) > 1 {
		next = x.layout.Centre(blocks, 1)
	}
	for b := range times {
		if x.layout.ByNumber(b) && b < len(blocks) {
			out = append(out, blocks[b])
			out[len(out)-1].SentAt = times[b].SentAt
			continue
		}
		t := x.layout.Centre(times, b)
		for at+1 < len(blocks) && next <= t {
			at, centre = at+1, next
			if at+1 < len(blocks) {
				next = x.layout.Centre(blocks, at+1)
			}
		}
		s := blocks[at]
		if at+1 < len(blocks) && t > centre {
			share := float64(t-centre) / float64(next-centre)
			s.WaitNS += int32(float64(share * float64(blocks[at+1].WaitNS-s.WaitNS)))
		}
		s.SentAt = times[b].SentAt
		out = append(out, s)
	}
	return out
}
