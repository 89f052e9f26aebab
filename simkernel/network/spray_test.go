package network

import "testing"

// Spray uses each link once in a round. The packets of senders in lockstep have the same place in every
// round. If rounds began with the same link, each sender would use one link only.
func TestSprayedPacketsInLockstepUseAllLinks(t *testing.T) {
	const links = 8
	const rounds = 4000
	m := balancing{seed: 1, turns: make([]uint32, 2)}
	var used [links][links]int // by place in the round and link
	for range rounds {
		var round [links]int
		for place := range links {
			link := m.nextTurn(1, links)
			round[link]++
			used[place][link]++
		}
		for link, packets := range round {
			if packets != 1 {
				t.Fatalf("a round has %d packets on link %d, want 1", packets, link)
			}
		}
	}
	for place, of := range used {
		for link, packets := range of {
			if packets < rounds/links*8/10 || packets > rounds/links*12/10 {
				t.Errorf("sender %d sends %d of %d packets over link %d", place, packets, rounds, link)
			}
		}
	}
}
