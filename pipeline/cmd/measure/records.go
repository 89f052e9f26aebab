package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

// Measurements that take hours store what they have measured. If they are started again, they continue.

// errLate says that the time for the measurement has elapsed.
var errLate = errors.New("no time left")

// recordsOf returns the folder of what a measurement has stored, and starts its time.
func (b *bench) recordsOf(name string) string {
	folder := filepath.Join(b.records, name)
	b.fail(os.MkdirAll(folder, 0o755))
	if b.short && b.minutes < 0 {
		b.minutes = 15
	}
	b.startTime()
	return folder
}

// startTime starts the time after which no run begins.
func (b *bench) startTime() {
	if b.minutes >= 0 {
		b.until = time.Now().Add(time.Duration(b.minutes * float64(time.Minute)))
	}
}

// version returns the program with its commit, and the version of the method. If the method has the same
// version, its results are the same, and stored ones stay valid. The version of the lake does not change
// them.
func (b *bench) version(ctx context.Context) (program, method string) {
	program, versions, _ := strings.Cut(strings.TrimSpace(b.parsimon(ctx, "version")), "\n")
	return program, methodOf(versions)
}

// methodOf returns the version of the method in "lake schema 21, method 41".
func methodOf(versions string) string {
	_, method, _ := strings.Cut(versions, ", ")
	return method
}

// readStored reads a stored value into the value that to points to. It reports whether there was one.
func (b *bench) readStored(file string, to any) bool {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w (remove it to measure it again)", file, err)
	}
	b.fail(err)
	return err == nil
}

// store writes a value atomically.
func (b *bench) store(file string, value any) {
	if b.err != nil {
		return
	}
	data, err := json.MarshalIndent(value, "", " ")
	b.fail(err)
	b.fail(renameio.WriteFile(file, data, 0o644))
}

// late reports whether no run may begin any more.
func (b *bench) late() bool { return !b.until.IsZero() && time.Now().After(b.until) }

// A remembered value is stored with the version of the method that it was measured with.
type remembered[T any] struct {
	Method string `json:"method"`
	Value  T      `json:"value"`
}

// remember returns the value of a file or, if the file has none of this method, measures and stores it. ok is
// false if it is too late to measure, or after an error.
func remember[T any](b *bench, file, method string, measure func() T) (value T, ok bool) {
	var r remembered[T]
	if b.readStored(file, &r) && r.Method == method {
		return r.Value, b.err == nil
	}
	if b.late() || b.err != nil {
		return value, false
	}
	r = remembered[T]{Method: method, Value: measure()}
	b.store(file, r)
	return r.Value, b.err == nil
}
