package queries

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// Chart is a Vega-Lite specification that draws the answer of a question. It stands beside the question:
// X.vl.json draws X.sql.
//
// A specification has no rows: its data has the name of the question, and whoever draws it
// binds the rows of the answer to that name. It has no colours either: a theme gives them. The width "container"
// stands for the width that the page has. Charts with parameters service and vnet show one group of flows: null is
// all of them.
type Chart struct {
	Name    string // of the chart and of the question
	Caption string // what the chart shows, in words
	Spec    json.RawMessage
	// Filtered says that the chart has the parameters service and vnet.
	Filtered bool
}

//go:embed *.vl.json theme_light.json theme_dark.json
var chartFiles embed.FS

var charts = sync.OnceValue(func() []Chart {
	entries, err := chartFiles.ReadDir(".")
	if err != nil {
		panic("queries: " + err.Error())
	}
	var all []Chart
	for _, e := range entries { // sorted by name
		name, isChart := strings.CutSuffix(e.Name(), ".vl.json")
		if !isChart {
			continue
		}
		text, err := chartFiles.ReadFile(e.Name())
		if err != nil {
			panic("queries: " + err.Error())
		}
		c, err := parseChart(name, text)
		if err != nil {
			panic("queries: " + err.Error())
		}
		all = append(all, c)
	}
	return all
})

func parseChart(name string, text []byte) (Chart, error) {
	var spec struct {
		Description string `json:"description"`
		Params      []struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return Chart{}, fmt.Errorf("%s.vl.json: %w", name, err)
	}
	if spec.Description == "" {
		return Chart{}, fmt.Errorf("%s.vl.json: no description", name)
	}
	c := Chart{Name: name, Caption: spec.Description, Spec: text}
	for _, p := range spec.Params {
		c.Filtered = c.Filtered || p.Name == "service"
	}
	return c, nil
}

// GetChart returns the chart of that name.
func GetChart(name string) (Chart, error) {
	for _, c := range charts() {
		if c.Name == name {
			return c, nil
		}
	}
	return Chart{}, fmt.Errorf("no chart %q", name)
}

// Theme returns a Vega-Lite configuration that gives charts their colours, which colour-blind readers can
// distinguish, on a light or a dark page.
func Theme(dark bool) json.RawMessage {
	name := "theme_light.json"
	if dark {
		name = "theme_dark.json"
	}
	text, err := chartFiles.ReadFile(name)
	if err != nil {
		panic("queries: " + err.Error()) // embedded
	}
	return text
}
