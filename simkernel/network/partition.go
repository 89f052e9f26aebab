package network

// Partition divides the nodes of a network into at most that many domains with about the same number of links,
// for New. Hosts are in the domain of their first switch, and adjacent switches mostly in the same one:
// domains are consecutive sections of one breadth-first search. The division affects the speed of a Network
// with several workers, never its results. links need not be valid: New checks them.
func Partition(links []Link, hosts []bool, domains int) []int32 {
	out := make([][]int32, len(hosts)) // neighbours of each node
	inside := func(node int32) bool { return node >= 0 && int(node) < len(hosts) }
	for _, l := range links {
		if inside(l.SrcNode) && inside(l.DstNode) {
			out[l.SrcNode] = append(out[l.SrcNode], l.DstNode)
		}
	}
	domainOf := make([]int32, len(hosts))
	seen := make([]bool, len(hosts))
	weight, total := 0, len(links)
	var queue []int32
	for first := range hosts {
		if hosts[first] || seen[first] {
			continue
		}
		seen[first] = true
		queue = append(queue[:0], int32(first))
		for len(queue) > 0 {
			at := queue[0]
			queue = queue[1:]
			domain := int32(min(domains-1, weight*domains/max(1, total)))
			domainOf[at] = max(0, domain)
			weight += len(out[at])
			for _, next := range out[at] {
				if seen[next] {
					continue
				}
				seen[next] = true
				if hosts[next] {
					domainOf[next] = domainOf[at]
					weight += len(out[next])
				} else {
					queue = append(queue, next)
				}
			}
		}
	}
	return domainOf
}
