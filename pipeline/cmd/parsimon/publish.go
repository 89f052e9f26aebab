package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline/cmd/publishing"
)

// A publisherVerb is a command of the program parsimon-publish, which does the work.
type publisherVerb struct {
	*env
	command string
	options publisherOptions
	flags   *pflag.FlagSet
}

// A publisherOptions has the flags of a command.
type publisherOptions interface {
	Declare(f *pflag.FlagSet)
	Check() error
}

func (e *env) publisher(command string, options publisherOptions) verb {
	return &publisherVerb{env: e, command: command, options: options}
}

func (v *publisherVerb) declare(f *pflag.FlagSet) {
	v.flags = f
	v.options.Declare(f)
}

func (v *publisherVerb) run(ctx context.Context, args []string) error {
	if err := v.options.Check(); err != nil {
		return usageError{err}
	}
	return v.runPublisher(ctx, v.command, v.flags, args)
}

// runPublisher runs a command of parsimon-publish with the flags that were given.
func (e *env) runPublisher(ctx context.Context, command string, flags *pflag.FlagSet, args []string) error {
	program, err := findPublisher()
	if err != nil {
		return err
	}
	all := slices.Concat([]string{command}, givenFlags(flags), []string{"--"}, args)
	c := exec.CommandContext(ctx, program, all...)
	c.Stdout = e.stdout
	c.Stderr = e.stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
	err = c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return reportedError(exit.ExitCode())
	}
	return err
}

// findPublisher returns the path of parsimon-publish: beside this program, or in PATH.
func findPublisher() (string, error) {
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), publishing.Program)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	found, err := exec.LookPath(publishing.Program)
	if err != nil {
		return "", fmt.Errorf("the program %s is neither beside this one nor in PATH: \"make publish\" in the "+
			"source tree builds it as bin/%s", publishing.Program, publishing.Program)
	}
	return found, nil
}

// givenFlags returns the flags that were given, in the form of a command line. Both programs know them.
func givenFlags(f *pflag.FlagSet) (args []string) {
	f.Visit(func(flag *pflag.Flag) {
		if flag.Name == "cpu-profile" { // of this program
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			args = append(args, "--"+flag.Name+"="+value)
		}
	})
	return args
}
