package format

import (
	"cmp"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"parsimon/stages/topology"
)

// unifyNames gives each device one spelling, which is the first. Names that differ only in case are a fault,
// unless the format treats them as equal. A name with a domain and the same name without one are one device,
// unless several domains have the name or a cable connects the two.
func (s *assembler) unifyNames() {
	s.spelling = map[string]string{}
	sameDevice := s.domains()
	reported := map[string]bool{}
	unify := func(name *string, at place) {
		key := strings.ToLower(*name)
		bare, is := sameDevice[key]
		if is {
			key = bare
		}
		first, known := s.spelling[key]
		if !known {
			s.spelling[key] = *name
		}
		if !known || first == *name {
			return
		}
		byDomain := !strings.EqualFold(*name, first)
		if !s.foldCase && !byDomain && !reported[*name] && !s.excluded(*name) {
			reported[*name] = true
			s.repair(
				at,
				topology.FaultSimilarNames,
				"%s is also written %s: one device or two?",
				*name,
				first,
			)
		}
		if s.foldCase || byDomain || slices.Contains(s.o.Repair, topology.FaultSimilarNames) {
			*name = first
		}
	}
	for i := range s.devices {
		unify(&s.devices[i].name, s.devices[i].at)
	}
	for i := range s.all {
		unify(&s.all[i].a.device, s.all[i].at)
		unify(&s.all[i].b.device, s.all[i].at)
	}
}

// domainName matches a name with a domain. The last part of the domain has only letters.
var domainName = regexp.MustCompile(`^([^.]*[a-z][^.]*)\.(?:[^.]+\.)*[a-z]{2,}$`)

// withoutDomain returns the name of a device in lower case and without its domain. It returns "" if there is
// no domain, as in an address.
func withoutDomain(name string) string {
	if _, err := netip.ParseAddr(name); err == nil {
		return ""
	}
	m := domainName.FindStringSubmatch(name)
	if m == nil {
		return ""
	}
	return m[1]
}

// domains returns the name without a domain for each name with one, if both are one device. All are in lower
// case.
func (s *assembler) domains() map[string]string {
	at := map[string]place{}
	long := map[string][]string{} // by the name without a domain
	note := func(name string, where place) {
		name = strings.ToLower(name)
		_, known := at[name]
		if known {
			return
		}
		at[name] = where
		bare := withoutDomain(name)
		if bare != "" {
			long[bare] = append(long[bare], name)
		}
	}
	cabled := map[[2]string]bool{}
	for _, v := range s.devices {
		note(v.name, v.at)
	}
	for _, v := range s.all {
		note(v.a.device, v.at)
		note(v.b.device, v.at)
		cabled[[2]string{strings.ToLower(v.a.device), strings.ToLower(v.b.device)}] = true
	}
	same := map[string]string{}
	example := ""
	for _, bare := range slices.Sorted(maps.Keys(long)) {
		where, both := at[bare]
		all := slices.DeleteFunc(long[bare], func(name string) bool {
			return cabled[[2]string{name, bare}] || cabled[[2]string{bare, name}]
		})
		switch {
		case !both || len(all) == 0:
		case len(all) == 1 || s.repair(where, topology.FaultSimilarNames, "%s may be %s or %s", bare, all[0],
			all[1]):
			same[all[0]] = bare
			example = cmp.Or(example, all[0])
		}
	}
	if len(same) > 0 {
		s.note(
			"names: %s written with and without a domain, such as %s",
			topology.Count(len(same), "device"),
			example,
		)
	}
	return same
}

// known returns the spelling that the cables use for a device of another list. A name with a domain matches
// the same name without one if only one device has that name.
func (s *assembler) known(name string) string {
	key := strings.ToLower(name)
	spelling, is := s.spelling[key]
	if is {
		return spelling
	}
	spelling, is = s.spelling[withoutDomain(key)]
	if is {
		return spelling
	}
	if s.bare == nil {
		s.bare = map[string]string{}
		for full, spelling := range s.spelling {
			short := withoutDomain(full)
			if _, several := s.bare[short]; several {
				spelling = ""
			}
			s.bare[short] = spelling
		}
	}
	return cmp.Or(s.bare[key], name)
}

// unifyPorts gives each port of a device one spelling, which is the first. In LLDP, both the device and its
// neighbor list a port, and their spellings may differ.
func (s *assembler) unifyPorts() {
	first := map[end]string{} // by device and normalized name
	renamed := map[end]string{}
	unify := func(e *end) {
		e.port = knownPort(e.port)
		if e.port == "" {
			return
		}
		key := end{e.device, portKey(e.port)}
		spelling, known := first[key]
		if !known {
			first[key] = e.port
			return
		}
		if spelling != e.port {
			renamed[*e] = spelling
			e.port = spelling
		}
	}
	for i := range s.all {
		unify(&s.all[i].a)
		unify(&s.all[i].b)
	}
	if len(renamed) == 0 {
		return
	}
	var examples []string
	for e, spelling := range renamed {
		examples = append(examples, e.String()+" for "+spelling)
	}
	slices.Sort(examples)
	s.note(
		"ports: %d in another spelling, compared by normalized names, such as %s",
		len(renamed),
		examples[0],
	)
}

// findPorts finds the ports of neighbors that one end of a cable does not state. It uses the port that the
// other end lists for the same cable. If two devices list the same number of cables to each other, each with
// its own port only, they are the same cables. Which port connects to which does not affect the network.
func (s *assembler) findPorts() {
	type half struct {
		near end // with a port
		far  string
	}
	known := map[half][]string{} // ports of the far device
	for _, v := range s.all {
		if v.a.port != "" && v.b.port != "" {
			for k, e := range [2]end{v.a, v.b} {
				far := [2]end{v.b, v.a}[k]
				h := half{e, far.device}
				if !slices.Contains(known[h], far.port) {
					known[h] = append(known[h], far.port)
				}
			}
		}
	}
	halves := map[[2]string][]*listing{} // by the device whose port is known, and the other
	for i := range s.all {
		v := &s.all[i]
		near := &v.a
		far := &v.b
		if near.port == "" {
			near, far = far, near
		}
		if near.port == "" || far.port != "" {
			continue
		}
		ports := known[half{*near, far.device}]
		if len(ports) == 1 {
			far.port = ports[0]
			s.count(1, "row", "ports: %s without the port of one end, which the other end lists")
			continue
		}
		pair := [2]string{near.device, far.device}
		halves[pair] = append(halves[pair], v)
	}
	s.pairHalves(halves)
}

// pairHalves completes listings that have the port of one end with listings that have the port of the other.
func (s *assembler) pairHalves(halves map[[2]string][]*listing) {
	ports := func(list []*listing, device string) []string {
		var all []string
		for _, v := range list {
			port := v.a.port
			if v.a.device != device {
				port = v.b.port
			}
			all = append(all, port)
		}
		slices.SortFunc(all, topology.CompareNatural)
		return slices.Compact(all)
	}
	for pair, list := range halves {
		back := halves[[2]string{pair[1], pair[0]}]
		if pair[0] > pair[1] || len(back) == 0 {
			continue
		}
		near := ports(list, pair[0])
		far := ports(back, pair[1])
		if len(near) != len(far) {
			continue
		}
		for _, v := range append(slices.Clip(list), back...) {
			a := &v.a
			b := &v.b
			if a.device != pair[0] {
				a, b = b, a
			}
			if a.port == "" {
				a.port = near[slices.Index(far, b.port)]
			} else if b.port == "" {
				b.port = far[slices.Index(near, a.port)]
			}
		}
		s.count(len(near), "cable", "ports: %s of which each end lists its own port only")
	}
}
