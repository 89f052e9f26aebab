package stages

import (
	"slices"
	"testing"

	"parsimon/simkernel"
)

// With a transport that has feedback by time, what hops send is taken at common times: those of the hop whose packets
// left last. Waits between two blocks are interpolated; before the first and after the last they are constant.
func TestFeedbackIsTakenAtCommonTimes(t *testing.T) {
	p := simkernel.ParamsOf(simkernel.Swift)
	fast := []simkernel.Block{{SentAt: 1, WaitNS: 100}, {SentAt: 101, WaitNS: 300}, {SentAt: 201, WaitNS: 200}}
	slow := []simkernel.Block{{SentAt: 1, WaitNS: 10}, {SentAt: 151, WaitNS: 20}, {SentAt: 401, WaitNS: 40}}
	nic := []simkernel.Block{{SentAt: 1}, {SentAt: 101, WaitNS: 5}, {SentAt: 201}}
	x := NewFeedbackBuilder(lineNetwork(t), &p, 1, 2, AblateDamping)
	got, _ := built(t, x, PassScope, observationsOf(nic, fast, slow), nil)
	want := map[int32][]simkernel.Block{
		0: {{SentAt: 1, UpstreamNS: 100}, {SentAt: 151, NICWaitNS: 3, UpstreamNS: 250}, {SentAt: 401, UpstreamNS: 200}},
		2: {{SentAt: 1, WaitNS: 10}, {SentAt: 151, NICWaitNS: 3, WaitNS: 20}, {SentAt: 401, WaitNS: 40}},
		4: {{SentAt: 1, WaitNS: 110}, {SentAt: 151, WaitNS: 270}, {SentAt: 401, WaitNS: 240}},
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
	p := simkernel.ParamsOf(simkernel.Swift)
	times := []simkernel.Block{{SentAt: 1, WaitNS: 10}, {SentAt: 151, WaitNS: 20}}
	none := []simkernel.Block{{WaitNS: 100}, {WaitNS: 300}, {WaitNS: 7}}
	x := NewFeedbackBuilder(lineNetwork(t), &p, 1, 2, AblateDamping)
	got, _ := built(t, x, PassScope, observationsOf(nil, none, times), nil)
	if want := []simkernel.Block{{SentAt: 1, UpstreamNS: 100}, {SentAt: 151, UpstreamNS: 300}, {UpstreamNS: 7}}; !slices.Equal(got[0], want) {
		t.Errorf("link 0 receives %+v, want %+v", got[0], want)
	}
	got, _ = built(t, x, PassScope, observationsOf(nil, none, none), nil)
	if want := []simkernel.Block{{UpstreamNS: 100}, {UpstreamNS: 300}, {UpstreamNS: 7}}; !slices.Equal(got[0], want) {
		t.Errorf("link 0 receives %+v, want %+v", got[0], want)
	}
}

// What a hop sent before is taken at the times of what its packets observe now.
func TestDampingIsByTime(t *testing.T) {
	p := simkernel.ParamsOf(simkernel.Swift)
	x := NewFeedbackBuilder(lineNetwork(t), &p, 1, 3, 0)
	was := observationsOf(nil, []simkernel.Block{{SentAt: 1, WaitNS: 300}, {SentAt: 201, WaitNS: 900}}, nil)
	now := observationsOf(nil, []simkernel.Block{{SentAt: 1, WaitNS: 300}, {SentAt: 101, WaitNS: 300}, {SentAt: 201, WaitNS: 300}}, nil)
	got, _ := built(t, x, PassScope, now, was)
	want := []simkernel.Block{{SentAt: 1, WaitNS: 300}, {SentAt: 101, WaitNS: 400}, {SentAt: 201, WaitNS: 500}}
	if !slices.Equal(got[4], want) {
		t.Errorf("link 4 receives %+v, want %+v", got[4], want)
	}
}
