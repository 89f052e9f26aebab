package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"parsimon/pipeline/cache"
	"parsimon/pipeline/lake"
	"parsimon/schema/units"
)

var cacheCommand = command{
	name: "cache", args: "prune --lake DIR|--cache DIR",
	summary: "limit the size of a cache of link-case results",
	help: `
Runs keep the result of each link case by the digest of everything it depends on, in LAKE/_cache or
where --cache says, and simulate only what they do not find. Several lakes and runs may share a cache,
also at the same time. A result whose bytes have changed is not used and simulated again.

  parsimon cache prune --lake lake --keep 2GB

removes what was of no use for longest until at most that much is left, and what programs of other
versions have stored. Runs that are at work meanwhile simulate what they no longer find.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var lakePath, dir, keep string
		f.StringVar(&lakePath, "lake", "", "directory of the lake whose own cache is meant")
		f.StringVar(&dir, "cache", "", "directory of the cache, instead of --lake")
		f.StringVar(&keep, "keep", "10GB", "what may be left; 0: nothing")
		return func(_ context.Context, args []string) error {
			if len(args) != 1 || args[0] != "prune" {
				return usagef("say what to do: prune")
			}
			if (lakePath == "") == (dir == "") {
				return usagef("one of --lake and --cache is required")
			}
			var most int64
			if keep != "0" {
				var err error
				if most, err = units.Parse(keep, units.Bytes); err != nil {
					return usagef("--keep %q: %v", keep, err)
				}
			}
			if dir == "" {
				dir = lake.CachePath(lakePath)
			}
			report, err := cache.Prune(dir, most)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.stdout, "removed %d packs (%sB), left %d (%sB)\n", report.RemovedPacks,
				units.Human(float64(report.RemovedBytes)), report.Packs, units.Human(float64(report.Bytes)))
			return err
		}
	},
}
