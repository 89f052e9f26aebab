package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// writeSection replaces what a page has between <!-- begin NAME: … --> and <!-- end NAME -->.
func writeSection(page, name, content string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	replaced, err := replaceSection(string(text), name, content)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(replaced), 0o644)
}

// replaceSection keeps the markers, which must be there once.
func replaceSection(text, name, content string) (string, error) {
	quoted := regexp.QuoteMeta(name)
	begin := regexp.MustCompile(`<!-- begin `+quoted+`:[^>]*-->\n`).FindAllStringIndex(text, -1)
	end := regexp.MustCompile(`<!-- end `+quoted+` -->`).FindAllStringIndex(text, -1)
	if len(begin) != 1 || len(end) != 1 || end[0][0] < begin[0][1] {
		return "", fmt.Errorf("want one <!-- begin %s: command --> with its <!-- end %s -->", name, name)
	}
	return text[:begin[0][1]] + strings.TrimSpace(content) + "\n" + text[end[0][0]:], nil
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
