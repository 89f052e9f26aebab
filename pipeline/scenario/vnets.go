package scenario

import (
	"slices"

	"parsimon/schema/tree"
)

// readVNets reads the virtual networks that span only some of the hosts.
func (r *scenarioReader) readVNets(f tree.Field) error {
	return f.Each(func(item tree.Field) error {
		v := vnetSpec{at: item}
		err := item.Object(tree.Keys{
			"name": tree.ReadText(&v.name),
			"hosts": func(f tree.Field) error {
				v.at = f
				return tree.ReadList(&v.hosts, tree.Verbatim)(f)
			},
		})
		switch {
		case err != nil:
			return err
		case v.name == "":
			return item.Failf("has no name")
		case len(v.hosts) == 0:
			return item.Failf("has no hosts; leave it out if it spans all")
		case slices.ContainsFunc(r.workload.vnets, func(o vnetSpec) bool { return o.name == v.name }):
			return item.Failf("is named %q like another virtual network", v.name)
		}
		r.workload.vnets = append(r.workload.vnets, v)
		return nil
	})
}

// unusedVNet is a virtual network that no service is in.
func (r *scenarioReader) unusedVNet() *vnetSpec {
	for i, v := range r.workload.vnets {
		if !slices.ContainsFunc(r.workload.services, func(s serviceSpec) bool { return s.VNet == v.name }) {
			return &r.workload.vnets[i]
		}
	}
	return nil
}
