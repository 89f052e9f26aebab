package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
)

var cacheCommand = command{
	name: "cache", args: "prune --lake DIR|--cache DIR",
	summary: "limit the size of a cache of link-case results",
	help: `
Runs keep the result of each link case by the digest of everything it depends on, in LAKE/_cache or
where --cache says, and simulate only what they do not find. Several lakes and runs may share a cache,
also at the same time. A result whose bytes have changed is not used and simulated again.

  parsimon cache prune --lake lake --keep 2GB

removes what was of no use for longest until at most that much is left, besides what is damaged and
what killed runs have left. Runs that are at work meanwhile simulate what they no longer find.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var lake, cache, keep string
		f.StringVar(&lake, "lake", "", "directory of the lake whose own cache is meant")
		f.StringVar(&cache, "cache", "", "directory of the cache, instead of --lake")
		f.StringVar(&keep, "keep", "10GB", "what may be left; 0: nothing")
		return func(_ context.Context, args []string) error {
			if len(args) != 1 || args[0] != "prune" {
				return usagef("say what to do: prune")
			}
			if (lake == "") == (cache == "") {
				return usagef("one of --lake and --cache is required")
			}
			var most int64
			if keep != "0" {
				var err error
				if most, err = parseBytes(keep); err != nil {
					return usagef("--keep %q: %v", keep, err)
				}
			}
			if cache == "" {
				cache = pipeline.LakeCache(lake)
			}
			report, err := pipeline.PruneCache(cache, most)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.stdout, "removed %d packs (%sB), left %d (%sB)\n", report.RemovedPacks, pipeline.Human(float64(report.RemovedBytes)), report.Packs, pipeline.Human(float64(report.Bytes)))
			return err
		}
	},
}
