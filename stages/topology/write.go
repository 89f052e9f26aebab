package topology

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// WriteTables writes the network to nodes.csv and links.csv in a directory, which it creates where
// needed. Reading the directory gives the same network: the same ids, links and paths.
func WriteTables(dir string, n *Network) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	optional := func(v int32) string {
		if v < 0 {
			return ""
		}
		return strconv.Itoa(int(v))
	}
	nodes := [][]string{{"node_id", "name", "kind", "pod", "rack"}}
	for _, v := range n.Nodes {
		nodes = append(nodes, []string{strconv.Itoa(int(v.ID)), v.Name, v.Kind, optional(v.Pod), optional(v.Rack)})
	}
	links := [][]string{{"src_node", "dst_node", "bandwidth_bps", "delay_ns", "failed"}}
	for i := 0; i < len(n.Links); i += 2 {
		l := n.Links[i]
		links = append(links, []string{strconv.Itoa(int(l.Src)), strconv.Itoa(int(l.Dst)),
			strconv.FormatInt(l.BandwidthBps, 10), strconv.FormatInt(l.DelayNS, 10), strconv.FormatBool(l.Failed)})
	}
	return errors.Join(writeCSV(filepath.Join(dir, "nodes.csv"), nodes), writeCSV(filepath.Join(dir, "links.csv"),
		links))
}

func writeCSV(file string, rows [][]string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(csv.NewWriter(f).WriteAll(rows), f.Close())
}
