package format

import "testing"

// A flow from "1" must start at the host with that name.
func TestNamesThatAreNumbers(t *testing.T) {
	graph := "graph:\n  hosts: [\"1\", \"0\", \"2\"]\n  switches: [s]\n  bandwidth: 10Gbps\n  delay: 1us\n" +
		"  cables: [\"1:s\", \"0:s\", \"2:s\"]\n"
	list := "a,b,speed\n2,s,10G\n1,s,10G\nx,s,10G\n"
	for name, text := range map[string]string{"net.yaml": graph, "c.csv": list} {
		l := loadText(t, name, text, Options{})
		wantFaults(t, l)
		for _, v := range l.Network.Nodes {
			id, is := numberOf(v.Name)
			if is && id != v.ID {
				t.Errorf("%s: node %d is named %s", name, v.ID, v.Name)
			}
		}
	}
	both := `{"nodes": [{"id": 0, "kind": "host", "name": "1"}, {"id": 1, "kind": "host", "name": "0"}, {"id": 2, "kind": "tor", "name": "9"}],
	  "links": [{"a": 0, "b": 2, "bandwidth": 1000000, "delay": 0}, {"a": 1, "b": 2, "bandwidth": 1000000, "delay": 0}]}`
	wantFaults(
		t,
		loadText(t, "n.json", both, Options{}),
		`1 similar-names node 0 is named "1", which is the id of another node`,
		"1 similar-names node 1",
	)
}
