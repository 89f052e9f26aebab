package format

import (
	"regexp"
	"slices"
	"strings"
)

// A portFamily is a kind of port, such as 100-gigabit Ethernet, with the names that vendors use for it.
type portFamily struct {
	name string
	bps  int64 // the speed that the name implies; 0: none
	// spellings are in lower case, without dashes, and end before the first digit.
	spellings []string
}

// portFamilies has the names of ports of Cisco IOS, NX-OS and IOS-XR, Arista, Dell, H3C, Huawei, Juniper,
// Nokia and SONiC's aliases. A spelling that is missing here, such as swp or xe, is a separate family.
var portFamilies = []portFamily{
	{"ethernet", 0, []string{"ethernet", "eth", "et", "e"}},
	{"fast ethernet", 1e8, []string{"fastethernet", "fa"}},
	{
		"1 gigabit",
		1e9,
		[]string{"gigabitethernet", "gigabiteth", "gigabit", "gige", "gig", "ge", "gi", "1ge", "1gige"},
	},
	{"2.5 gigabit", 25e8, []string{"twogigabitethernet", "tw"}},
	{"5 gigabit", 5e9, []string{"fivegigabitethernet", "fiv"}},
	{
		"10 gigabit",
		1e10,
		[]string{"tengigabitethernet", "tengige", "tengig", "tengigabit", "ten", "te", "10ge", "10gige",
			"10gbe", "xgigabitethernet", "xgige", "xge"},
	},
	{
		"25 gigabit",
		25e9,
		[]string{"twentyfivegigabitethernet", "twentyfivegige", "twentyfive", "twe", "tf", "25ge",
			"25gige", "25gbe", "wge"},
	},
	{
		"40 gigabit",
		4e10,
		[]string{"fortygigabitethernet", "fortygige", "fortygig", "forty", "fo", "40ge", "40gige",
			"40gbe", "fge", "xlge"},
	},
	{
		"50 gigabit",
		5e10,
		[]string{"fiftygigabitethernet", "fiftygige", "fifty", "fi", "50ge", "50gige", "50gbe"},
	},
	{
		"100 gigabit",
		1e11,
		[]string{"hundredgigabitethernet", "hundredgige", "hundredgig", "hundred", "hu", "hun", "100ge",
			"100gige", "100gbe", "hge", "cge"},
	},
	{
		"200 gigabit",
		2e11,
		[]string{"twohundredgigabitethernet", "twohundredgige", "200ge", "200gige", "200gbe", "th"},
	},
	{
		"400 gigabit",
		4e11,
		[]string{"fourhundredgigabitethernet", "fourhundredgige", "400ge", "400gige", "400gbe", "fh",
			"fou"},
	},
	{
		"800 gigabit",
		8e11,
		[]string{"eighthundredgigabitethernet", "eighthundredgige", "800ge", "800gige", "800gbe", "eh"},
	},
	{"xe", 1e10, []string{"xe"}}, // Junos, whose et- are 25 to 400 Gbps
	{
		"port channel",
		0,
		[]string{"portchannel", "po", "bundleether", "be", "ethtrunk", "bridgeaggregation", "bagg"},
	},
	{"management", 0, []string{"management", "mgmt", "ma"}},
}

var familyOf = func() map[string]*portFamily {
	of := map[string]*portFamily{}
	for i, f := range portFamilies {
		for _, spelling := range f.spellings {
			of[spelling] = &portFamilies[i]
		}
	}
	return of
}()

// portParts matches a family, the gigabits before it (as in 100GE1/0/1), and the rest from the first digit.
var portParts = regexp.MustCompile(`^((?:\d+g(?:e|ig(?:e)?|be))|[a-z][a-z \-]*?)[ \-]?(\d.*)$`)

// splitPort returns the family of a port, in lower case without dashes, and its number. Both are empty if the
// name has another form.
func splitPort(name string) (family, number string) {
	m := portParts.FindStringSubmatch(strings.ToLower(strings.TrimSpace(name)))
	if m == nil {
		return "", ""
	}
	return strings.NewReplacer("-", "", " ", "").Replace(m[1]), m[2]
}

// portKey is the normalized name of a port: two names of ports of one device mean the same port if their keys
// are equal. These have equal keys: Ethernet1, ethernet1, Eth1 and Et1; Gi1/0/1 and GigabitEthernet1/0/1;
// e1-1 and ethernet-1/1. Linux's eth0, a management port, is not SONiC's Ethernet0.
func portKey(name string) string {
	family, number := splitPort(name)
	if family == "" || name == "eth0" {
		return strings.ToLower(strings.TrimSpace(name))
	}
	f := familyOf[family]
	if f != nil {
		family = f.name
	}
	return family + " " + strings.ReplaceAll(number, "-", "/")
}

// portSpeed returns the speed that the name of a port implies, in bps, or 0 if it implies none.
func portSpeed(name string) int64 {
	family, _ := splitPort(name)
	f := familyOf[family]
	if f != nil {
		return f.bps
	}
	return 0
}

// unknownPorts are placeholders that lists contain instead of an unknown port.
var unknownPorts = []string{
	"-",
	"--",
	"n/a",
	"not advertised",
	"na",
	"none",
	"null",
	"nil",
	"unknown",
	"unspecified",
	"?",
	"tbd",
}

// knownPort returns the name of a port, or "" if it is a placeholder for an unknown port.
func knownPort(name string) string {
	name = strings.TrimSpace(name)
	if slices.Contains(unknownPorts, strings.ToLower(strings.Trim(name, "<>()"))) {
		return ""
	}
	return name
}
