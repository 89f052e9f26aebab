package format

import (
	"strconv"
	"testing"

	"parsimon/stages/topology"
)

// Read reads a network without options.
func Read(path string) (*topology.Network, error) {
	l, err := Load(path, Options{})
	if err != nil {
		return nil, err
	}
	return l.Usable()
}

// draftOf reads files by one format's reader.
func draftOf(read func(*draft), files map[string][]byte, names ...string) *draft {
	d := newDraft(&source{files: names, data: files}, &Options{})
	read(d)
	return d
}

// parseJSON reads a JSON topology as Read does.
func parseJSON(file string, data []byte) (*topology.Network, error) {
	d := draftOf((*draft).readJSON, map[string][]byte{file: data}, file)
	n := d.finish()
	if n != nil {
		return n, nil
	}
	return nil, joinFaults(d.Faults)
}

// checkDraft finishes a draft: it has a network that can be routed, or faults.
func checkDraft(t *testing.T, d *draft) {
	t.Helper()
	n := d.finish()
	if n == nil {
		if len(d.Faults) == 0 {
			t.Fatal("neither a network nor a fault")
		}
		return
	}
	if len(n.Nodes) > 200 {
		return
	}
	if _, err := topology.NewRouter(t.Context(), n, 1); err != nil {
		t.Fatal(err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

func TestSpeedRules(t *testing.T) {
	r := parseSpeedRules(t, "leaf*:Ethernet*=25G")[0]
	if r.String() != "leaf*:Ethernet*=25Gbps" ||
		!r.matches(end{"leaf3", "Ethernet7"}) ||
		r.matches(end{"leaf3", "mgmt"}) {
		t.Errorf("rule %s", r)
	}
	for _, bad := range []string{"", "leaf*", "=10G", "leaf*=fast"} {
		if _, err := ParseSpeedRule(bad); err == nil {
			t.Errorf("rule %q: no error", bad)
		}
	}
}
