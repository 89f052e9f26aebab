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
	classOf []int32 // by link id
	classes []linkClass
	all     []place          // path by path, in the order of the path
	paths   map[string]int32 // by the classes of a path's links: index in all of its first place
	key     []byte           // of the current path in paths
}

// A linkClass has what routing needs of a link.
type linkClass struct {
	delayNS int64
	sendNS  int64 // of a full packet, and of its ACK on the reverse link
	bps     int64
}

// bytePS returns the transmission time of a byte.
func (l *linkClass) bytePS() float64 { return 8e12 / float64(l.bps) }

func (p *places) reset(n *topology.Network, params *simkernel.Params) {
	p.all = p.all[:0]
	p.paths = map[string]int32{}
	p.classes = p.classes[:0]
	p.classOf = columns.Resize(p.classOf, len(n.Links))
	numbers := map[linkClass]int32{}
	for id, l := range n.Links {
		class := linkClass{delayNS: l.DelayNS, sendNS: sendAndAckNS(params, n, l), bps: l.BandwidthBps}
		number, known := numbers[class]
		if !known {
			number = int32(len(p.classes))
			numbers[class] = number
			p.classes = append(p.classes, class)
		}
		p.classOf[id] = number
	}
}

// of returns the index in all of the first place of a path.
func (p *places) of(path []int32) int32 {
	p.key = p.key[:0]
	for _, id := range path {
		p.key = binary.LittleEndian.AppendUint32(p.key, uint32(p.classOf[id]))
	}
	first, known := p.paths[string(p.key)]
	if !known {
		first = int32(len(p.all))
		p.paths[string(p.key)] = first
		p.add(path)
	}
	return first
}

// add adds the places of a path.
//
// A link before or behind a hop matters if it is slower than the links that the case simulates, because
// those already space a flow's packets (simkernel.Case). Before the hop, it is compared with the source.
// Behind the hop, it is compared with the target. At hop 0, the slowest link matters even if it is as fast
// as the source, because waits before it move packets together.
func (p *places) add(path []int32) {
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
	slowest := 0 // the last hop with the lowest bandwidth behind hop 0
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
}
