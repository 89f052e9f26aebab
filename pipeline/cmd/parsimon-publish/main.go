// Command parsimon-publish copies the answers of a lake to Apache Iceberg tables in a directory or bucket,
// where Spark, Trino, DuckDB and other readers query them, and scenarios back into a lake.
//
// It is a separate module, because Iceberg and the clouds' drivers add more modules than all of parsimon
// has. "parsimon publish" runs it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"parsimon/pipeline"
	lakecatalog "parsimon/pipeline/catalog"
	"parsimon/pipeline/cmd/parsimon-publish/publisher"
	"parsimon/pipeline/cmd/parsimon-publish/sources"
	"parsimon/pipeline/cmd/parsimon-publish/store"
	"parsimon/pipeline/cmd/parsimon-publish/tables"
	"parsimon/pipeline/cmd/publishing"
	"parsimon/pipeline/lake"
)

// commands are the commands of the program, each with its text of help.
var commands = map[string]struct {
	usage string
	run   func(ctx context.Context, args []string, to outputs) error
}{
	publishing.Fetch: {"fetch --into DIR: copy objects, as standard input asks in JSON-RPC", fetch},
	"publish":        {"publish URL --lake DIR: publish answers as Apache Iceberg tables", publish},
	"pull":           {"pull URL SCENARIO --lake DIR: copy a published scenario into a lake", pull},
}

// A usageError is a mistake in the command line.
type usageError struct{ error }

// outputs are where answers and log lines go.
type outputs struct {
	answer, errors io.Writer
	log            zerolog.Logger
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	err := run(ctx, os.Args[1:], outputs{answer: os.Stdout, errors: os.Stderr})
	if err == nil {
		return
	}
	_, _ = fmt.Fprintf(os.Stderr, "%s: %s\n", publishing.Program, strings.ReplaceAll(err.Error(), "\n", "\n  "))
	os.Exit(exitCode(err))
}

// exitCode returns the exit code of an error: that of parsimon.
func exitCode(err error) int {
	switch {
	case errors.As(err, new(usageError)):
		return 2
	case errors.Is(err, lake.ErrBusy):
		return 4
	case errors.As(err, new(*lake.DamageError)):
		return 5
	case errors.Is(err, context.Canceled):
		return 130
	}
	return 1
}

// run runs one command line.
func run(ctx context.Context, args []string, to outputs) error {
	if len(args) > 0 {
		if c, ok := commands[args[0]]; ok {
			return c.run(ctx, args[1:], to)
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		fmt.Fprintf(&b, "\n  %s %s", publishing.Program, commands[name].usage)
	}
	return usageError{fmt.Errorf("give a command; parsimon COMMAND --help shows its flags:%s", b.String())}
}

// parse parses the flags of a command, which declare declares, and sets up the log. It returns the arguments.
func parse(args []string, to *outputs, declare func(*pflag.FlagSet)) ([]string, error) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	level := set.String("log-level", "info", "least severe log line on stderr: debug, info, warn or error")
	form := set.String("log-format", "auto", "form of log lines: json or console")
	quiet := set.BoolP("quiet", "q", false, "show no log line below a warning")
	declare(set)
	if err := set.Parse(args); err != nil {
		return nil, usageError{err}
	}
	least, err := zerolog.ParseLevel(*level)
	if err != nil {
		return nil, usageError{err}
	}
	if *quiet {
		least = max(least, zerolog.WarnLevel)
	}
	w := to.errors
	if *form == "console" {
		w = zerolog.ConsoleWriter{Out: to.errors, TimeFormat: time.TimeOnly}
	}
	to.log = zerolog.New(w).Level(least).With().Timestamp().Logger()
	log.SetFlags(0)
	log.SetOutput(to.log) // of the Iceberg library
	return set.Args(), nil
}

// publish publishes scenarios of a lake.
func publish(ctx context.Context, args []string, to outputs) error {
	var o publishing.Options
	args, err := parse(args, &to, o.Declare)
	if err != nil {
		return err
	}
	if len(args) != 1 {
		return usageError{errors.New("give one URL: " + publishing.Schemes)}
	}
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	p := &publisher.Publisher{Prune: o.Prune, AtOnce: o.AtOnce, Log: to.log}
	p.Tables = tables.Of(tables.Selection{Flows: o.Flows, AllVariants: o.AllVariants})
	if p.Store, err = store.Open(ctx, args[0]); err != nil {
		return usageError{err}
	}
	if p.Lake, err = lake.Open(o.Lake, false); err != nil {
		return err
	}
	ids, err := resolve(p.Lake, o.Scenarios)
	if err != nil {
		return err
	}
	if p.Catalog, err = store.OpenCatalog(ctx, p.Store, o.Catalog); err != nil {
		return err
	}
	changes, err := p.Publish(ctx, ids)
	age, ageErr := o.Expire()
	if err == nil && ageErr == nil && age > 0 {
		err = p.Expire(ctx, age)
	}
	return errors.Join(err, writeChanges(to.answer, o.Format, changes))
}

// pull copies a published scenario into a lake.
func pull(ctx context.Context, args []string, to outputs) error {
	var o publishing.PullOptions
	args, err := parse(args, &to, o.Declare)
	if err != nil {
		return err
	}
	if len(args) != 2 {
		return usageError{errors.New("give a URL and a scenario")}
	}
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	p := &publisher.Publisher{Log: to.log}
	if p.Store, err = store.Open(ctx, args[0]); err != nil {
		return usageError{err}
	}
	if p.Catalog, err = store.OpenCatalog(ctx, p.Store, o.Catalog); err != nil {
		return err
	}
	if p.Lake, err = lake.Open(o.Lake, true); err != nil {
		return err
	}
	id, err := p.Pull(ctx, args[1], o.Wait)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(to.answer, id)
	return errors.Join(err, lakecatalog.Write(p.Lake))
}

// fetch lists and copies objects as the program parsimon asks, until its input ends. Then it removes the
// directory of the copies, because a process that was killed cannot.
func fetch(ctx context.Context, args []string, to outputs) error {
	var into string
	args, err := parse(args, &to, func(f *pflag.FlagSet) {
		f.StringVar(&into, "into", "", "directory of the copies (required)")
	})
	if err != nil {
		return err
	}
	if len(args) != 0 || into == "" {
		return usageError{errors.New("give --into DIR")}
	}
	signal.Ignore(syscall.SIGPIPE) // if parsimon is killed, the copies are removed all the same
	buckets := &sources.Buckets{}
	service := sources.NewService(ctx, buckets)
	err = service.Serve(os.Stdin, to.answer)
	return errors.Join(err, buckets.Close(), os.RemoveAll(into))
}

// resolve returns the ids of the named scenarios; without names, those of all.
func resolve(l *lake.Lake, named []string) (ids []lake.ScenarioID, err error) {
	if len(named) == 0 {
		return publisher.Scenarios(l)
	}
	for _, name := range named {
		id, err := pipeline.Resolve(l, name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// writeChanges writes what was changed.
func writeChanges(out io.Writer, format string, changes []publisher.Change) error {
	if format == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(changes)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "table\tadded\tremoved\tbytes sent\tsnapshot\t")
	for _, c := range changes {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t\n", c.Table, c.Added, c.Removed, c.Bytes, c.Snapshot)
	}
	return w.Flush()
}
