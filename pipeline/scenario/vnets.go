package scenario

import (
	"slices"
)

// readVNets reads the virtual networks that span only some of the hosts.
func (r *scenarioReader) readVNets(f field) error {
	list, err := f.list()
	if err != nil {
		return err
	}
	for _, item := range list {
		v := vnetSpec{at: item}
		err := item.object(map[string]func(field) error{
			"name": readText(&v.name),
			"hosts": func(f field) error {
				v.at = f
				hosts, err := f.list()
				for _, h := range hosts {
					text, err := h.text()
					if err != nil {
						return err
					}
					v.hosts = append(v.hosts, text)
				}
				return err
			},
		})
		switch {
		case err != nil:
			return err
		case v.name == "":
			return item.failf("has no name")
		case len(v.hosts) == 0:
			return item.failf("has no hosts; leave it out if it spans all")
		case slices.ContainsFunc(r.workload.vnets, func(o vnetSpec) bool { return o.name == v.name }):
			return item.failf("is named %q like another virtual network", v.name)
		}
		r.workload.vnets = append(r.workload.vnets, v)
	}
	return nil
}

// unusedVNet is a virtual network that no service is in.
func (r *scenarioReader) unusedVNet() *vnetSpec {
	for i, v := range r.workload.vnets {
		if !slices.ContainsFunc(r.workload.services, func(s serviceSpec) bool { return s.vnet == v.name }) {
			return &r.workload.vnets[i]
		}
	}
	return nil
}
