package headline

import (
	"embed"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The templates are pages, and parts of pages, with placeholders:
//
//	{NAME.VALUE}    the median of a figure of measurement NAME
//	{NAME.A/B}      the median of the ratio of two figures, round by round
//	{NAME.VALUE~}   the same with the least and the greatest value; also with a ratio
//	{NAME:TEXT}     a text of the measurement
//	{measurements}  a table of all measurements
//	{mark}          what the mark of older figures means, if the page has one
//
// A figure that was not measured is a dash.
//
//go:embed templates/*.txt
var templates embed.FS

const (
	mark        = "†"
	markText    = mark + " The code that this figure measures has changed since it was measured."
	notMeasured = "–"
)

// pages are the files that templates write. If between is set, a template writes only the part of the page
// between two marks.
var pages = []struct{ file, template, between string }{
	{"datasets/results/headline.md", "headline", ""},
	{"pipeline/PERFORMANCE.md", "performance", ""},
	{"README.md", "readme-figures", "figures"},
	{"README.md", "readme-tour", "tour"},
}

var placeholder = regexp.MustCompile(`\{(?:(measurements|mark)|` +
	`([a-z0-9-]+)([.:])([a-z0-9-]+)(?:/([a-z0-9-]+))?(~?))\}`)

// Pages returns the content of each page, by file. digests are those of the present code.
func Pages(root string, results Results, digests map[string]string) (map[string]string, error) {
	written := map[string]string{}
	for _, p := range pages {
		data, err := templates.ReadFile("templates/" + p.template + ".txt")
		if err != nil {
			return nil, err
		}
		text, err := fill(string(data), results, digests)
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", p.template, err)
		}
		if p.between == "" {
			written[p.file] = text
			continue
		}
		page, known := written[p.file]
		if !known {
			data, err := os.ReadFile(filepath.Join(root, p.file))
			if err != nil {
				return nil, err
			}
			page = string(data)
		}
		if written[p.file], err = replaceBetween(page, p.between, text); err != nil {
			return nil, fmt.Errorf("%s: %w", p.file, err)
		}
	}
	return written, nil
}

// Write writes the pages.
func Write(root string, results Results, digests map[string]string) error {
	pages, err := Pages(root, results, digests)
	if err != nil {
		return err
	}
	for file, text := range pages {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// replaceBetween replaces the part of a page between its marks.
func replaceBetween(page, name, text string) (string, error) {
	begin := "<!-- " + name + ": written by make headline -->\n"
	end := "<!-- end of " + name + " -->"
	before, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("there is no part between %q and %q", strings.TrimSpace(begin), end)
	}
	return before + begin + text + end + after, nil
}

// fill replaces the placeholders of a template.
func fill(template string, results Results, digests map[string]string) (string, error) {
	var failure error
	marked := false
	text := placeholder.ReplaceAllStringFunc(template, func(match string) string {
		part := placeholder.FindStringSubmatch(match)
		if part[1] == "measurements" {
			return table(results, digests)
		}
		if part[1] == "mark" {
			return match // below, because only the whole text shows whether it is needed
		}
		m := Find(part[2])
		if m == nil {
			failure = fmt.Errorf("%s: there is no measurement %q", match, part[2])
			return match
		}
		r := results[m.Name]
		shown, err := show(m, r, part)
		if err != nil {
			failure = fmt.Errorf("%s: %w", match, err)
		}
		if part[3] == "." && shown != notMeasured && r.Sources != digests[m.Name] {
			marked = true
			shown += mark
		}
		return shown
	})
	if failure != nil {
		return "", failure
	}
	text = strings.ReplaceAll(text, mark+"%", "%"+mark)
	if marked {
		return strings.ReplaceAll(text, "{mark}", markText), nil
	}
	return regexp.MustCompile(`\{mark\}\n+`).ReplaceAllString(text, ""), nil
}

// show returns what a placeholder shows. part has the groups of the placeholder.
func show(m *Measurement, r *Result, part []string) (string, error) {
	name := part[4]
	divisor := part[5]
	spread := part[6] != ""
	if part[3] == ":" {
		if !slices.Contains(m.Texts, name) {
			return "", fmt.Errorf("measurement %s has no text %q", m.Name, name)
		}
		if r == nil || r.Texts[name] == "" {
			return notMeasured, nil
		}
		return r.Texts[name], nil
	}
	for _, n := range []string{name, divisor} {
		if n != "" && !slices.Contains(m.Values, n) {
			return "", fmt.Errorf("measurement %s has no figure %q", m.Name, n)
		}
	}
	if r == nil || len(r.Values[name]) == 0 || divisor != "" && len(r.Values[divisor]) != len(r.Values[name]) {
		return notMeasured, nil
	}
	values := slices.Clone(r.Values[name])
	for i := range values {
		if divisor != "" {
			values[i] /= r.Values[divisor][i]
		}
	}
	text := Number(median(values))
	if spread && len(values) > 1 {
		text += fmt.Sprintf(" (%s–%s)", Number(slices.Min(values)), Number(slices.Max(values)))
	}
	return text, nil
}

// Number prints a number with two to four digits.
func Number(x float64) string {
	size := math.Abs(x)
	switch {
	case size >= 1000:
		digits := fmt.Sprintf("%.0f", x)
		for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		return digits
	case size >= 99.5:
		return fmt.Sprintf("%.0f", x)
	case size >= 9.95:
		return fmt.Sprintf("%.1f", x)
	case size >= 0.1 || size == 0:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.2g", x)
}

// table lists the measurements.
func table(results Results, digests map[string]string) string {
	var s strings.Builder
	s.WriteString("| measurement | what | form | commit | date | machine | code | state |\n" +
		"|---|---|---|---|---|---|---|---|")
	for i := range Measurements {
		m := &Measurements[i]
		r := results[m.Name]
		if r == nil {
			fmt.Fprintf(&s, "\n| `%s` | %s | – | – | – | – | – | not measured |", m.Name, m.About)
			continue
		}
		state := "current"
		if r.Sources != digests[m.Name] {
			state = "older than the code" + mark
		}
		commit := "`" + r.Commit + "`"
		if r.Before != "" {
			commit += ", alternately with `" + r.Before + "`"
		}
		fmt.Fprintf(&s, "\n| `%s` | %s | %s | %s | %s | %s | `%s` | %s |", m.Name, m.About, r.Form, commit, r.Date,
			r.Machine, r.Sources, state)
	}
	return s.String()
}
