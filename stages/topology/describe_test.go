package topology

import (
	"reflect"
	"slices"
	"testing"
)

func TestDescribeClos(t *testing.T) {
	n := MustClos(t, SmallClos(4))
	d := Describe(n)
	want := []RoleCount{{KindHost, 0, 256}, {KindTor, 1, 32}, {KindFabric, 2, 4}, {KindSpine, 3, 8}}
	if !slices.Equal(
		d.Roles,
		want,
	) {
		t.Errorf("roles %v", d.Roles)
	}
	if want := []Oversubscription{{KindTor, 32, 1, 1, 1}, {KindFabric, 4, 4, 4, 4}}; !slices.Equal(
		d.Oversubscription,
		want,
	) {
		t.Errorf("oversubscription %v", d.Oversubscription)
	}
	if len(d.Asymmetries) != 0 || d.Racks != 32 || d.Pods != 2 || d.RackHostsMax != 8 {
		t.Errorf("%+v", d)
	}
	// A ToR without one of its cables differs from the others.
	a, b, err := n.Cable("pod0-tor3:pod0-fabric0")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Fail(a, b); err != nil {
		t.Fatal(err)
	}
	d = Describe(n)
	if want := []Asymmetry{{KindTor, "1 cable up (40 Gbps)", "2 cables up (80 Gbps)",
		[]string{"pod0-tor3"}}}; !reflect.DeepEqual(
		d.Asymmetries,
		want,
	) {
		t.Errorf("asymmetries %+v", d.Asymmetries)
	}
	if d.Speeds[1].Failed != 1 {
		t.Errorf("speeds %v", d.Speeds)
	}
}
