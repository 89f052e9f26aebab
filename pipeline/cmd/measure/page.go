package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// writeResult writes datasets/results/NAME.md.
func (m *measurement) writeResult(content string) error {
	text := fmt.Sprintf("# %s\n\n%s%s. Written by `make %s ARGS=--write`.\n\n%s\n", m.name,
		strings.ToUpper(m.summary[:1]), m.summary[1:], m.name, strings.TrimSpace(content))
	return os.WriteFile(filepath.Join("datasets", "results", m.name+".md"), []byte(text), 0o644)
}

// provenance says at which commit, when and where figures were measured.
func (b *bench) provenance(ctx context.Context) string {
	commit, _ := b.execute(ctx, nil, "git", "describe", "--always", "--dirty", "--exclude=*")
	info, _ := os.ReadFile("/proc/cpuinfo") // absent on other systems
	processor := runtime.GOARCH
	if found := regexp.MustCompile(`(?m)^model name\s*: (.+)$`).FindSubmatch(info); found != nil {
		processor = string(found[1])
	}
	return fmt.Sprintf("Measured at commit `%s` on %s, %d cores (%s).", strings.TrimSpace(commit),
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), processor)
}
