package queries

import (
	"encoding/json"
	"fmt"
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
	text, err := files.ReadFile(name + ".vl.json")
	if err != nil {
		return Chart{}, fmt.Errorf("no chart %q", name)
	}
	return parseChart(name, text)
}

// Theme returns a Vega-Lite configuration that gives charts their colours, which colour-blind readers can
// distinguish, on a light or a dark page.
func Theme(dark bool) json.RawMessage {
	if dark {
		return read("theme_dark.json")
	}
	return read("theme_light.json")
}
