// Package publishing declares the flags of parsimon-publish. The program parsimon declares the same flags,
// and passes them on.
package publishing

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline/workloads"
	"parsimon/schema/units"
)

// Program is the name of the program that publishes.
const Program = "parsimon-publish"

// The program parsimon lists and copies objects by calls of JSON-RPC (net/rpc/jsonrpc) to the command Fetch
// of this program, on its standard input and output. ListMethod takes a URL and returns a list of
// workloads.Object. CopyMethod takes a Copy and returns a Done.
const (
	Fetch      = "fetch"
	Service    = "Objects"
	ListMethod = Service + ".List"
	CopyMethod = Service + ".Copy"
)

// A Copy asks for a copy of an object in a file that does not exist yet.
type Copy struct {
	Object workloads.Object `json:"object"`
	To     string           `json:"to"`
}

// Done is the result of a call that returns nothing.
type Done struct{}

// Schemes lists the forms of URLs of a place with published tables.
const Schemes = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, " +
	"abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX, file:///DIRECTORY or a directory"

// Catalogs lists the forms of a catalog.
const Catalogs = "none, sqlite:FILE, postgres://USER@HOST/DATABASE, rest:URL or glue"

// A Place is where published tables are.
type Place struct {
	Lake    string
	Catalog string
}

// Declare declares the flags of a place.
func (p *Place) Declare(f *pflag.FlagSet) {
	f.StringVar(&p.Lake, "lake", "", "directory of the lake (required)")
	f.StringVar(&p.Catalog, "catalog", "none", "catalog of the tables: "+Catalogs+"; "+
		"none: metadata/version-hint.text names the current version")
}

// Options are the flags of publish.
type Options struct {
	Place
	Scenarios   []string
	Flows       bool
	AllVariants bool
	Prune       bool
	AtOnce      int
	Format      string
	expire      string
}

// Declare declares the flags.
func (o *Options) Declare(f *pflag.FlagSet) {
	o.Place.Declare(f)
	f.StringArrayVar(&o.Scenarios, "scenario", nil, "scenario to publish, by its id or name; may be repeated; "+
		"default: all of the lake")
	f.BoolVar(&o.Flows, "flows", false, "also publish tables flows, dependencies and rejects, "+
		"which parsimon pull needs")
	f.BoolVar(&o.AllVariants, "all-variants", false, "also publish tables NAME_all, which have all variants of "+
		"each scenario; table NAME has its answer")
	f.BoolVar(&o.Prune, "prune", false, "remove the scenarios that the lake does not have from the tables")
	f.StringVar(&o.expire, "expire", "", "remove versions of the tables that are older than this, such as 30d, "+
		"and the files that only they have")
	f.IntVar(&o.AtOnce, "at-once", 8, "number of files that are copied concurrently")
	f.StringVar(&o.Format, "format", "text", "form of the answer: text or json")
}

// Check returns an error for invalid flags.
func (o *Options) Check() error {
	switch {
	case o.Lake == "":
		return errors.New("--lake is required")
	case o.Format != "text" && o.Format != "json":
		return fmt.Errorf("--format %q: must be text or json", o.Format)
	case o.AtOnce < 1 || o.AtOnce > maxAtOnce:
		return fmt.Errorf("--at-once %d: must be 1 to %d", o.AtOnce, maxAtOnce)
	case o.Prune && len(o.Scenarios) > 0:
		return errors.New("--prune removes all scenarios that are not in the lake: it cannot go with --scenario")
	}
	_, err := o.Expire()
	return err
}

const maxAtOnce = 256

// leastExpire is the least age of versions that are removed. A younger version may still be read.
const leastExpire = 24 * time.Hour

// Expire returns the age from which versions of tables are removed; 0: they all stay.
func (o *Options) Expire() (time.Duration, error) {
	if o.expire == "" {
		return 0, nil
	}
	age, err := units.ParseAge(o.expire)
	if err == nil && age < leastExpire {
		err = errors.New("want 1d or more, because a younger version may still be read")
	}
	if err != nil {
		return 0, fmt.Errorf("--expire %q: %w", o.expire, err)
	}
	return age, nil
}

// PullOptions are the flags of pull.
type PullOptions struct {
	Place
	Wait time.Duration
}

// Declare declares the flags.
func (o *PullOptions) Declare(f *pflag.FlagSet) {
	o.Place.Declare(f)
	f.DurationVar(&o.Wait, "wait", 0, "how long to wait while another process works on the scenario, e.g. 10m")
}

// Check returns an error for invalid flags.
func (o *PullOptions) Check() error {
	switch {
	case o.Lake == "":
		return errors.New("--lake is required")
	case o.Wait < 0:
		return fmt.Errorf("--wait %s: must not be negative", o.Wait)
	}
	return nil
}
