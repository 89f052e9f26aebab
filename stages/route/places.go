package route

import (
	"encoding/binary"
	"math"

	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// A place has the columns of a hop that are the same for all paths over links of the same classes.
type place struct {
	delayToNS   int64 `col:"delay_to_link_ns"` // propagation before the link
	pathDelayNS int64 `col:"path_delay_ns"`
	pathSendNS  int64 `col:"path_send_ns"`
	// See simkernel.Case.
	upBps     int64 `col:"upstream_bps"`
	downBps   int64 `col:"downstream_bps"`
	betweenPS int32 `col:"between_ps"`
	hop       int16 `col:"hop"`
	hops      int16 `col:"hops"`
}

// places has the places of paths. Most networks have few classes of links, and few paths over links of
// different classes.
type places struct {
	params  *simkernel.Params
	classOf []int32 // by link id
	classes []linkClass
	all     []place // path by path, in the order of the path
	paths   []pathClass
	byKey   map[string]int32 // by the classes of a path's links: index in paths
	key     []byte           // of the current path in byKey
}

// A linkClass has what routing needs of a link.
type linkClass struct {
	delayNS  int64
	returnNS int64 // delay of the reverse link
	sendNS   int64 // of a full packet, and of its ACK on the reverse link
	bps      int64
}

// A pathClass is what all paths over links of the same classes have in common.
type pathClass struct {
	first       int32 // index of its first place in places.all
	hops        int16
	slowest     int16 // the last hop with the lowest bandwidth behind hop 0
	roundTripNS int64
	ideal       simkernel.IdealPath
}

// bytePS returns the transmission time of a byte.
func (l *linkClass) bytePS() float64 { return 8e12 / float64(l.bps) }

func (p *places) reset(n *topology.Network, params *simkernel.Params) {
	p.params = params
	p.all = p.all[:0]
	p.paths = p.paths[:0]
	p.byKey = map[string]int32{}
	p.classes = p.classes[:0]
	p.classOf = columns.Resize(p.classOf, len(n.Links))
	numbers := map[linkClass]int32{}
	for id, l := range n.Links {
		class := linkClass{
			delayNS: l.DelayNS, returnNS: n.Links[topology.Reverse(l.ID)].DelayNS,
			sendNS: sendAndAckNS(params, n, l), bps: l.BandwidthBps,
		}
		number, known := numbers[class]
		if !known {
			number = int32(len(p.classes))
			numbers[class] = number
			p.classes = append(p.classes, class)
		}
		p.classOf[id] = number
	}
}

// of returns the index of the class of a path in paths.
func (p *places) of(path []int32) int32 {
	p.key = p.key[:0]
	for _, id := range path {
		p.key = binary.LittleEndian.AppendUint32(p.key, uint32(p.classOf[id]))
	}
	class, known := p.byKey[string(p.key)]
	if !known {
		class = int32(len(p.paths))
		p.byKey[string(p.key)] = class
		p.paths = append(p.paths, p.classOfPath(path))
	}
	return class
}

// classOfPath returns the class of a path, and adds its places.
func (p *places) classOfPath(path []int32) pathClass {
	class := pathClass{first: int32(len(p.all)), hops: int16(len(path))}
	class.slowest = int16(p.add(path))
	class.ideal.Reset(p.params)
	for _, id := range path {
		l := &p.classes[p.classOf[id]]
		class.roundTripNS += l.delayNS + l.returnNS + l.sendNS
		class.ideal.Add(l.bps, l.delayNS)
	}
	return class
}

// add adds the places of a path. It returns the last hop with the lowest bandwidth behind hop 0, or 0 if the
// path has one link.
//
// A link before or behind a hop matters if it is slower than the links that the case simulates, because
// those already space a flow's packets (simkernel.Case). Before the hop, it is compared with the source.
// Behind the hop, it is compared with the target. At hop 0, the slowest link matters even if it is as fast
// as the source, because waits before it move packets together.
func (p *places) add(path []int32) (slowest int) {
	first := len(p.all)
	at := place{hops: int16(len(path))}
	slowestBps := p.classes[p.classOf[path[0]]].bps // of the links so far
	ps := 0.0                                       // transmission time of a byte on the links behind hop 0
	for hop, id := range path {
		l := &p.classes[p.classOf[id]]
		at.hop = int16(hop)
		at.betweenPS = roundPS(ps)
		p.all = append(p.all, at)
		at.delayToNS += l.delayNS
		at.pathSendNS += l.sendNS
		if hop > 0 {
			ps += l.bytePS()
		}
		if l.bps < slowestBps {
			slowestBps = l.bps
			at.upBps = l.bps
		}
	}
	added := p.all[first:]
	for hop := range added {
		added[hop].pathDelayNS = at.delayToNS
		added[hop].pathSendNS = at.pathSendNS
	}
	behindBps := int64(math.MaxInt64)
	for hop := len(added) - 1; hop > 0; hop-- {
		bps := p.classes[p.classOf[path[hop]]].bps
		if behindBps < bps {
			added[hop].downBps = behindBps
			continue
		}
		if bps < behindBps {
			slowest = hop
		}
		behindBps = bps
	}
	if slowest > 0 {
		added[0].downBps = behindBps
		added[0].betweenPS = added[slowest].betweenPS
	}
	return slowest
}
