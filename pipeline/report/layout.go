package report

import (
	"cmp"
	"math"
	"slices"
)

// Positions are in the unit square, y upwards. The left margin of a layered drawing is for the names of the layers.
const (
	leftMargin = 0.11
	edgeMargin = 0.035
)

// setLayers gives each vertex its distance, in edges, from the nearest vertex with hosts.
func setLayers(vertices []vertex) {
	var front []int
	for i := range vertices {
		vertices[i].layer = -1
		if vertices[i].hosts > 0 {
			vertices[i].layer = 0
			front = append(front, i)
		}
	}
	last := 0
	for len(front) > 0 {
		at := front[0]
		front = front[1:]
		for _, next := range vertices[at].beside {
			if vertices[next].layer < 0 {
				vertices[next].layer = vertices[at].layer + 1
				last = max(last, vertices[next].layer)
				front = append(front, next)
			}
		}
	}
	for i := range vertices { // what no host can reach is on top
		if vertices[i].layer < 0 {
			vertices[i].layer = last + 1
		}
	}
}

// layered says whether every edge joins two layers that follow each other, as in a Clos network.
func layered(vertices []vertex, edges []edge) bool {
	for _, e := range edges {
		if d := vertices[e.a].layer - vertices[e.b].layer; d != 1 && d != -1 {
			return false
		}
	}
	return len(edges) > 0
}

// placeLayers draws each layer on a line of its own, the hosts at the bottom. Within a layer vertices are ordered by
// the mean place of what they are joined to below, so that pods and racks stay together, and then by pod,
// rack and id.
func placeLayers(vertices []vertex) {
	top := 0
	for _, v := range vertices {
		top = max(top, v.layer)
	}
	for layer := 0; layer <= top; layer++ {
		var members []int
		for i, v := range vertices {
			if v.layer == layer {
				members = append(members, i)
			}
		}
		below := map[int]float64{}
		for _, i := range members {
			sum, n := 0.0, 0
			for _, j := range vertices[i].beside {
				if vertices[j].layer == layer-1 {
					sum, n = sum+vertices[j].x, n+1
				}
			}
			if n > 0 {
				below[i] = math.Round(sum/float64(n)*1e9) / 1e9
			}
		}
		slices.SortFunc(members, func(i, j int) int {
			a, b := vertices[i], vertices[j]
			return cmp.Or(cmp.Compare(below[i], below[j]), cmp.Compare(a.pod, b.pod), cmp.Compare(a.rack, b.rack),
				cmp.Compare(a.order, b.order))
		})
		y := edgeMargin + (1-2*edgeMargin)*float64(layer)/float64(max(1, top))
		spreadOut(vertices, members, y)
	}
}

// spreadOut places the vertices of a layer from left to right, with a gap between racks and a larger one between pods.
func spreadOut(vertices []vertex, members []int, y float64) {
	const rackGap, podGap = 0.6, 2.5
	at, places := 0.0, make([]float64, len(members))
	for k, i := range members {
		if k > 0 {
			at++
			before := vertices[members[k-1]]
			if v := vertices[i]; isHost(v) && v.pod != before.pod {
				at += podGap
			} else if isHost(v) && v.rack != before.rack {
				at += rackGap
			}
		}
		places[k] = at
	}
	width := 1 - leftMargin - edgeMargin
	for k, i := range members {
		// Half a step at either end, so that each vertex is above the middle of what is below it.
		vertices[i].x, vertices[i].y = leftMargin+width*(places[k]+0.5)/(at+1), y
	}
}

// placeByForce draws joined vertices near to each other and others apart (Fruchterman and Reingold, Graph drawing by
// force-directed placement, 1991), from a circle on, with a fixed number of steps.
func placeByForce(vertices []vertex, edges []edge) {
	n := len(vertices)
	if n == 0 {
		return
	}
	for i := range vertices {
		angle := 2 * math.Pi * float64(i) / float64(n)
		vertices[i].x, vertices[i].y = math.Cos(angle), math.Sin(angle)
	}
	steps := max(30, min(400, 40_000_000/(n*n)))
	ideal := math.Sqrt(4 / float64(n))
	for step := range steps {
		heat := 0.2*(1-float64(step)/float64(steps)) + 0.002
		moves := forces(vertices, edges, ideal)
		for i, m := range moves {
			if length := math.Hypot(m[0], m[1]); length > 0 {
				vertices[i].x += m[0] / length * min(length, heat)
				vertices[i].y += m[1] / length * min(length, heat)
			}
		}
	}
	fit(vertices)
}

// forces are the pushes of all vertices on each other and the pulls of the edges.
func forces(vertices []vertex, edges []edge, ideal float64) [][2]float64 {
	moves := make([][2]float64, len(vertices))
	push := func(i, j int, strength func(distance float64) float64) {
		dx, dy := vertices[i].x-vertices[j].x, vertices[i].y-vertices[j].y
		d := math.Hypot(dx, dy)
		if d < 1e-6 { // on each other: apart along a direction that depends on the vertices alone
			dx, dy, d = math.Cos(float64(i+1)), math.Sin(float64(i+1)), 1e-6
			dx, dy = dx*d, dy*d
		}
		f := strength(d) / d
		moves[i][0], moves[i][1] = moves[i][0]+dx*f, moves[i][1]+dy*f
		moves[j][0], moves[j][1] = moves[j][0]-dx*f, moves[j][1]-dy*f
	}
	for i := range vertices {
		for j := range i {
			push(i, j, func(d float64) float64 { return ideal * ideal / d })
		}
	}
	for _, e := range edges {
		push(e.a, e.b, func(d float64) float64 { return -d * d / ideal })
	}
	return moves
}

// fit moves and stretches a drawing to the unit square.
func fit(vertices []vertex) {
	loX, hiX, loY, hiY := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, v := range vertices {
		loX, hiX, loY, hiY = min(loX, v.x), max(hiX, v.x), min(loY, v.y), max(hiY, v.y)
	}
	scale := func(x, lo, hi float64) float64 {
		if hi-lo < 1e-9 {
			return 0.5
		}
		return 0.06 + 0.88*(x-lo)/(hi-lo)
	}
	for i, v := range vertices {
		vertices[i].x, vertices[i].y = scale(v.x, loX, hiX), scale(v.y, loY, hiY)
	}
}
