package stages

import (
	"slices"
	"testing"

	"parsimon/simkernel"
)

// timed returns parameters of Swift with a window of one packet, so that every packet has a block of its own and the
// first 16 are combined by number, and a function that puts 16 such blocks before others.
func timed() (p simkernel.Params, after func(first simkernel.Block, blocks ...simkernel.Block) []simkernel.Block) {
	p = simkernel.ParamsOf(simkernel.Swift)
	p.WindowBytes = 1
	return p, func(first simkernel.Block, blocks ...simkernel.Block) []simkernel.Block {
		return append(slices.Repeat([]simkernel.Block{first}, 16), blocks...)
	}
}

// With a transport that has feedback by time, what hops send is taken at common times: those of the hop whose packets
// left last. Waits between two blocks are interpolated; after the last they are constant. The first blocks are taken by
// number.
func TestFeedbackIsTakenAtCommonTimes(t *testing.T) {
	p, after := timed()
	fast := after(simkernel.Block{SentAt: 1, WaitNS: 100}, []simkernel.Block{{SentAt: 101, WaitNS: 300}, {SentAt: 201, WaitNS: 200}}...)
	slow := after(simkernel.Block{SentAt: 51, WaitNS: 10}, []simkernel.Block{{SentAt: 151, WaitNS: 20}, {SentAt: 401, WaitNS: 40}}...)
	nic := after(simkernel.Block{SentAt: 1, WaitNS: 1}, []simkernel.Block{{SentAt: 101, WaitNS: 5}, {SentAt: 201}}...)
	x := NewFeedbackBuilder(lineNetwork(t), &p, &Loads{}, 1, 2, AblateDamping)
	got, _ := built(t, x, PassScope, observationsOf(nic, fast, slow), nil)
	want := map[int32][]simkernel.Block{
		0: after(simkernel.Block{SentAt: 51, NICWaitNS: 1, UpstreamNS: 100},
			[]simkernel.Block{{SentAt: 151, NICWaitNS: 3, UpstreamNS: 250}, {SentAt: 401, UpstreamNS: 200}}...),
		2: after(simkernel.Block{SentAt: 51, NICWaitNS: 1, WaitNS: 10},
			[]simkernel.Block{{SentAt: 151, NICWaitNS: 3, WaitNS: 20}, {SentAt: 401, WaitNS: 40}}...),
		4: after(simkernel.Block{SentAt: 51, WaitNS: 110},
			[]simkernel.Block{{SentAt: 151, WaitNS: 270}, {SentAt: 401, WaitNS: 240}}...),
	}
	for link, blocks := range want {
		if !slices.Equal(got[link], blocks) {
			t.Errorf("link %d receives %+v, want %+v", link, got[link], blocks)
		}
	}
}

// Hops of which no times are known, as some that are imputed, send by number of packet; without any times so does the
// flow.
func TestFeedbackWithoutTimes(t *testing.T) {
	p, after := timed()
	times := after(simkernel.Block{SentAt: 1, WaitNS: 10}, simkernel.Block{SentAt: 151, WaitNS: 20})
	none := after(simkernel.Block{WaitNS: 100}, []simkernel.Block{{WaitNS: 300}, {WaitNS: 7}}...)
	x := NewFeedbackBuilder(lineNetwork(t), &p, &Loads{}, 1, 2, AblateDamping)
	got, _ := built(t, x, PassScope, observationsOf(nil, none, times), nil)
	if want := after(simkernel.Block{SentAt: 1, UpstreamNS: 100},
		[]simkernel.Block{{SentAt: 151, UpstreamNS: 300}, {UpstreamNS: 7}}...); !slices.Equal(got[0], want) {
		t.Errorf("link 0 receives %+v, want %+v", got[0], want)
	}
	got, _ = built(t, x, PassScope, observationsOf(nil, none, none), nil)
	if want := after(simkernel.Block{UpstreamNS: 100},
		[]simkernel.Block{{UpstreamNS: 300}, {UpstreamNS: 7}}...); !slices.Equal(got[0], want) {
		t.Errorf("link 0 receives %+v, want %+v", got[0], want)
	}
}

// What a hop sent before is taken at the times of what its packets observe now.
func TestDampingIsByTime(t *testing.T) {
	p, after := timed()
	first := simkernel.Block{SentAt: 1, WaitNS: 300}
	x := NewFeedbackBuilder(lineNetwork(t), &p, &Loads{}, 1, 3, 0)
	was := observationsOf(nil, after(first, simkernel.Block{SentAt: 201, WaitNS: 900}), nil)
	now := observationsOf(nil, after(first, []simkernel.Block{{SentAt: 101, WaitNS: 300}, {SentAt: 201, WaitNS: 300}}...), nil)
	got, _ := built(t, x, PassScope, now, was)
	want := after(first, []simkernel.Block{{SentAt: 101, WaitNS: 400}, {SentAt: 201, WaitNS: 500}}...)
	if !slices.Equal(got[4], want) {
		t.Errorf("link 4 receives %+v, want %+v", got[4], want)
	}
}
