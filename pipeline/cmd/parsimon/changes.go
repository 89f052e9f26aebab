package main

import (
	"github.com/spf13/pflag"

	"parsimon/pipeline/scenario"
)

// changeFlags say how one scenario is made from another.
type changeFlags struct{ scenario.Changes }

func (c *changeFlags) declare(f *pflag.FlagSet) {
	for _, k := range [][2]string{
		{"fail", "take down a cable A:B (ids or names), all cables of a SWITCH, what is plugged into DEVICE:PORT (one " +
			"member of a LAG), or random:K, K cables of --tier; may be repeated"},
		{"add-cable", "install a cable: A:B=100G or A:B=100G,500ns; may be repeated"},
		{"bandwidth", "change a bandwidth: A:B=100G for a cable, TIER=100G for all of a tier, or a pattern such as " +
			"'leaf*:spine1=40G'; may be repeated"},
		{"delay", "change a propagation delay, of cables as in --bandwidth: 'wan*:*=2ms' or tor-spine=500ns; may be repeated"},
		{"scale", "multiply services' flows: SERVICE=1.5, SERVICE=+50% or db=1.5,storage=2 (0 to 16); may be repeated"},
		{"move", "put a service into other racks, by their names or places: SERVICE=leaf3,leaf4, SERVICE=4-7 or " +
			"SERVICE=0,2,5; may be repeated"},
	} {
		read := func(text string) (scenario.Change, error) { return scenario.ParseChange(k[0], text) }
		parseEach(f, &c.Do, read, k[0], k[1])
	}
	f.StringVar(&c.FailTier, "tier", "", "tier of the cables of random:K, e.g. fabric-spine or tor-fabric,fabric-spine")
	f.Uint64Var(&c.Draw, "draw", 1, "which random:K: another number, other cables")
	declareMoves(f, &c.PathMoves)
	declareSettings(f, &c.Settings)
	f.StringVar(&c.Name, "name", "", "name of the new scenario in the lake; default: the base's, and what was changed")
	f.BoolVar(&c.AllowUnreachable, "allow-unreachable", false, "count flows without a path instead of refusing them")
}

// changes are what the flags say, in no scenario yet. At least one change is required.
func (c *changeFlags) changes() (scenario.Changes, error) {
	if len(c.Do)+len(c.PathMoves.Said())+len(c.Settings) == 0 {
		return c.Changes, usagef("say what changes: --fail, --add-cable, --bandwidth, --delay, --scale, --move, " +
			"--balance, --event, --transport, --window or --switch-buffer")
	}
	return c.Changes, nil
}
