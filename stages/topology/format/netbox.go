package format

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// terminations returns the ends that a cell of devices and a cell of ports list, as NetBox exports a cable
// with several terminations: "leaf1" with "Ethernet1,Ethernet2", or "srv1,srv2" with "eth0,eth0". NetBox
// writes each device once and both in any order, so that of several devices with different ports it is
// unknown which is whose.
func terminations(e end) (ends []end) {
	devices, ports := strings.Split(e.device, ","), strings.Split(e.port, ",")
	for i := range max(len(devices), len(ports)) {
		one := end{
			strings.TrimSpace(devices[min(i, len(devices)-1)]),
			strings.TrimSpace(ports[min(i, len(ports)-1)]),
		}
		if len(devices) > 1 && slices.ContainsFunc(ports, func(p string) bool { return p != ports[0] }) {
			one.port = ""
		}
		ends = append(ends, one)
	}
	return ends
}

// connections returns the ends of a cell of NetBox's column Connection: "DEVICE > PORT", several with commas
// between.
func connections(text string) (ends []end) {
	for piece := range strings.SplitSeq(text, ", ") {
		device, port, both := strings.Cut(piece, " > ")
		n := len(ends)
		if !both && n > 0 {
			ends[n-1].port += ", " + piece
			continue
		}
		ends = append(ends, end{strings.TrimSpace(device), strings.TrimSpace(port)})
	}
	return ends
}

var (
	// panelPort matches ports of patch panels.
	panelPort = regexp.MustCompile(`(?i)^(front|rear)([ _-]?port)?[ _-]?\d`)
	// panelWords name patch panels.
	panelWords = []string{"panel", "patch", "patchpanel", "odf", "cassette"}
	lastNumber = regexp.MustCompile(`(\d+)\D*$`)
)

// panels returns the devices that are patch panels: by the types of their ports, by names of their ports, or
// by their own name. Devices that options say are something else are none.
func (r *cablingReader) panels() []string {
	found := map[string]bool{}
	for _, c := range r.cables {
		for _, e := range []end{c.a, c.b} {
			if r.side[e] != "" || panelPort.MatchString(e.port) || named(e.device, panelWords) {
				found[e.device] = true
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	listed := r.listedDevices()
	for device := range found {
		if listed[device] || matchesAny(device, r.o.HostPatterns) || matchesAny(device, r.o.Exclude) {
			delete(found, device)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// listedDevices are the devices of the node list. Its faults are reported where roles are inferred.
func (r *cablingReader) listedDevices() map[string]bool {
	listed := map[string]bool{}
	if r.o.NodeList == "" {
		return listed
	}
	t := openTable(newDraft(r.source, r.o), r.o.NodeList, listDevice)
	for i := 0; t != nil && i < len(t.rows); i++ {
		listed[t.cell(i, listDevice)] = true
	}
	return listed
}

// A panelPlace is the ports of a patch panel with one number, front and rear.
type panelPlace struct{ panel, number string }

// panelPlaceOf returns the place of a port of a panel: its last number, else its name.
func panelPlaceOf(e end) panelPlace {
	m := lastNumber.FindStringSubmatch(e.port)
	if m != nil {
		return panelPlace{e.device, strings.TrimLeft(m[1], "0")}
	}
	return panelPlace{e.device, e.port}
}

// followPanels replaces the two cables at the front and at the rear of each port of a patch panel by the one
// connection that they are: the slower of both speeds, and the sum of both delays. Front and rear have the
// same number. A cable to a port from which no other leads on is left out at a rear port. At a front port it
// is a fault, because leaving it out could hide a connection.
func (r *cablingReader) followPanels() {
	panels := r.panels()
	if len(panels) == 0 {
		return
	}
	at := map[panelPlace][]*listedCable{}
	for i := range r.cables {
		c := &r.cables[i]
		for _, e := range []end{c.a, c.b} {
			if slices.Contains(panels, e.device) {
				place := panelPlaceOf(e)
				at[place] = append(at[place], c)
			}
		}
	}
	order := slices.SortedFunc(maps.Keys(at), func(a, b panelPlace) int {
		return cmp.Or(topology.CompareNatural(a.panel, b.panel), topology.CompareNatural(a.number, b.number))
	})
	into := map[*listedCable]*listedCable{} // cables that are part of another, or left out
	followed := 0
	for _, place := range order {
		if r.followPlace(place, at[place], into) {
			followed++
		}
	}
	kept := make([]listedCable, 0, len(r.cables))
	for i := range r.cables {
		_, gone := into[&r.cables[i]]
		if !gone {
			kept = append(kept, r.cables[i])
		}
	}
	r.cables = kept
	r.note(
		"panels: %s followed through %s (%s); --nodes with a role for it, or --exclude, decides otherwise",
		topology.Count(
			followed,
			"connection",
		),
		topology.Count(len(panels), "patch panel"),
		names.Listed(panels, 5),
	)
}

// followPlace joins the two cables at a place of a panel, and reports whether it has. into has, by a cable
// that was joined before, the one that it is part of; of a cable that is left out, the cable itself.
func (r *cablingReader) followPlace(
	place panelPlace,
	cables []*listedCable,
	into map[*listedCable]*listedCable,
) bool {
	present := cables[:0]
	for _, c := range cables {
		for into[c] != nil && into[c] != c {
			c = into[c]
		}
		if into[c] == c {
			continue // left out
		}
		if panelPlaceOf(c.b) != place {
			c.a, c.b = c.b, c.a
		}
		present = append(present, c)
	}
	cables = present
	if len(cables) == 0 {
		return false
	}
	first := cables[0]
	port := first.b
	what := fmt.Sprintf("%d cables end at ports of that number", len(cables))
	switch {
	case len(cables) == 2 && first == cables[1]:
		what = "the cable ends where it begins"
	case len(cables) == 2:
		second := cables[1]
		first.b = second.a
		first.down = first.down || second.down
		first.planned = first.planned || second.planned
		first.lanes = max(first.lanes, second.lanes)
		first.bps = min(cmp.Or(first.bps, second.bps), cmp.Or(second.bps, first.bps))
		if second.delayNS >= 0 {
			first.delayNS = max(first.delayNS, 0) + second.delayNS
		}
		into[second] = first
		return true
	case len(cables) == 1 && (r.side[port] == "rear" || strings.HasPrefix(strings.ToLower(port.port), "rear")):
		into[first] = first
		r.leaveOut("cables at rear ports of patch panels from which no other cable leads on")
		return false
	case len(cables) == 1:
		what = "no cable leads on from there"
	}
	for _, c := range cables {
		into[c] = c
	}
	r.fault(
		first.at,
		topology.FaultStatus,
		"%s may be a port of a patch panel, and %s: list interface connections, or say "+
			"with --nodes what %s is",
		port,
		what,
		port.device,
	)
	return false
}
