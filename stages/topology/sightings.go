package topology

// An end is a port of a device. The port is empty where the format has none.
type end struct{ device, port string }

func (e end) String() string {
	if e.port == "" {
		return e.device
	}
	return e.device + ":" + e.port
}

// A sighting is one statement that two ports are joined, made at a or about a.
type sighting struct {
	a, b    end
	bps     int64 // 0: not stated
	delayNS int64 // -1: not stated
	down    bool
	at      place
}

// ends is the cable that the sighting is about: its ends in a fixed order.
func (s *sighting) ends() [2]end {
	if s.a.device < s.b.device || s.a.device == s.b.device && s.a.port <= s.b.port {
		return [2]end{s.a, s.b}
	}
	return [2]end{s.b, s.a}
}

// A device is a node as a file names it, with what the file says about it.
type device struct {
	name      string
	at        place
	kind      string // "" unknown; "switch" for a switch of unknown role
	pod, rack string // "" unknown
}

// A sightings is all that a file says, in order. assemble processes it:
//
//	unifyNames   one spelling for each device
//	group        sightings of the same two ports are one cable
//	findStyle    is every cable to be listed from both ends?
//	cables       check the reports and the ports of each cable, settle speed and delay,
//	             merge parallel cables
//	build        find hosts, roles, racks, pods and ids; fill the draft
type sightings struct {
	list []sighting
	// devices that the file describes apart from their cables.
	devices []device
	// reports says that a device reports its own cables; nil where cables are listed once, or where
	// it depends on the list (see bothEnds).
	reports func(device string) bool
	// foldCase takes names that differ in case only as the same.
	foldCase bool
}
