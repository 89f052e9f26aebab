package laws

// presence is what the second law knows of one link. Times are in ps.
type presence struct {
	flows   int64 // present
	members int64 // the sum of their places, so that the last one is known
	counted int64 // flows that are known to send over the link
	push    int64 // their Σ k·a
	horizon int64 // their max D, or more
	sincePS int64 // since when the link is certainly sending; -1: it may be idle

	busyPS           int64 // for how long it has certainly been sending
	beganPS, endedPS int64 // to send the packets of all flows that have started, that are over
	least            int64 // of busyPS - endedPS

	excess  int64 // of busyPS over what there was to send, while flows are counted
	most    int64 // flows counted when there was excess
	longest pending
}

// join adds a flow and returns the one that was alone so far; -1: none was.
func (l *presence) join(place int32) (other int32) {
	other = -1
	if l.flows == 1 {
		other = int32(l.members)
	}
	l.flows++
	l.members += int64(place)
	return other
}

// leave removes a flow and returns the one that is alone now; -1: none is.
func (l *presence) leave(place int32) (other int32) {
	l.flows--
	l.members -= int64(place)
	if l.flows == 1 {
		return int32(l.members)
	}
	return -1
}

func (l *presence) count(p *pending, push, now int64) {
	l.touch(now)
	if l.counted == 0 {
		l.horizon, l.longest = 0, pending{}
	}
	l.counted++
	l.push += push
	l.horizon = max(l.horizon, p.cycle)
	if p.fctPS > l.longest.fctPS {
		l.longest = pending{row: p.row, fctPS: p.fctPS}
	}
	l.resume(now)
}

func (l *presence) uncount(push, now int64) {
	l.touch(now)
	l.counted--
	l.push -= push
	l.sincePS = -1
	l.resume(now)
}

func (l *presence) resume(now int64) {
	if l.counted > 0 && l.push > l.horizon {
		l.sincePS = now
	} else {
		l.sincePS = -1
	}
}

// touch brings the excess up to date.
func (l *presence) touch(now int64) {
	if l.sincePS < 0 {
		return
	}
	l.busyPS += now - l.sincePS
	l.sincePS = now
	if over := l.busyPS - l.beganPS - l.least; over > 0 {
		l.excess += over
		l.least += over // the next excess begins from here
		l.most = max(l.most, l.counted)
	}
}
