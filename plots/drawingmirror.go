package plots

import (
	"fmt"
	"slices"
	"strings"
)

// Measures of Figure 3, in points.
const (
	siteWidth  = 236.0
	siteGap    = 120.0 // between two columns, for the mirrors
	siteRow    = 18.0
	siteSpacer = 22.0
)

// mirrorPicture is Figure 3: clusters side by side, those that are copied from
// on the left, and the mirrors between them.
func mirrorPicture(t *Topology) picture {
	columns := mirrorColumns(t)
	boxes := map[string]rect{}
	height := 0.0
	for i, names := range columns {
		y := 14.0
		for _, name := range names {
			c := clusterNamed(t, name)
			h := siteHeight(c)
			boxes[name] = rect{margin + float64(i)*(siteWidth+siteGap), y, siteWidth, h}
			y += h + siteSpacer
		}
		height = max(height, y)
	}
	width := 2*margin + float64(len(columns))*siteWidth + float64(len(columns)-1)*siteGap
	var says []string
	for _, m := range t.Mirrors {
		says = append(says, fmt.Sprintf("%s to %s (%s)", m.From, m.To, strings.Join(m.Topics, ", ")))
	}
	return picture{
		title:   "Figure 3. Clusters, and the mirrors between them",
		caption: []string{fmt.Sprintf("Each box is a cluster with a ZooKeeper of its own, drawn from what that holds. Mirrors are consumers of one cluster that publish to another: %s.", strings.Join(says, "; "))},
		width:   max(width, pageWidth), height: height,
		draw: func(p *pen) {
			into, done := map[string]int{}, map[string]int{}
			for _, m := range t.Mirrors {
				into[m.To]++
			}
			for _, m := range t.Mirrors {
				done[m.To]++
				to := boxes[m.To]
				drawMirror(p, m, boxes[m.From], to, to.h*float64(done[m.To])/float64(into[m.To]+1))
			}
			for _, c := range t.Clusters {
				drawSite(p, c, boxes[c.Name])
			}
		},
	}
}

// mirrorColumns puts each cluster right of all that it is copied from, as far
// as the mirrors make no ring.
func mirrorColumns(t *Topology) [][]string {
	depth := map[string]int{}
	for range t.Clusters { // as many steps as a chain can have
		for _, m := range t.Mirrors {
			if d := depth[m.From] + 1; d > depth[m.To] && d < len(t.Clusters) {
				depth[m.To] = d
			}
		}
	}
	var columns [][]string
	for d := range len(t.Clusters) {
		var names []string
		for _, c := range t.Clusters {
			if depth[c.Name] == d {
				names = append(names, c.Name)
			}
		}
		if len(names) > 0 {
			columns = append(columns, names)
		}
	}
	return columns
}

func clusterNamed(t *Topology, name string) Cluster {
	i := slices.IndexFunc(t.Clusters, func(c Cluster) bool { return c.Name == name })
	return t.Clusters[i] // names were checked
}

func siteHeight(c Cluster) float64 {
	rows := len(c.Producers) + len(c.Groups) + len(c.Loads)
	return 28 + siteRow*float64(rows) + 34*float64(len(c.Brokers)) + 12
}

// drawSite draws a cluster from above: who publishes, the brokers, who
// consumes, who loads.
func drawSite(p *pen, c Cluster, r rect) {
	strong, small, soft := textStyle(8.8, ink, true), textStyle(7.8, ink, false), textStyle(7.2, softInk, false)
	p.frame(r, boxShade, boxInk, 1)
	p.left(rect{r.x + 2, r.y + 4, r.w - 4, 16}, strong, c.Name)
	y := r.y + 24
	for _, q := range c.Producers {
		p.left(rect{r.x + 4, y, r.w - 8, siteRow}, small, q.Name+" > "+strings.Join(q.Topics, ", "))
		y += siteRow
	}
	for _, b := range c.Brokers {
		box := rect{r.x + 8, y + 2, r.w - 16, 30}
		p.frame(box, white, axisInk, 0.7)
		p.left(rect{box.x, box.y + 1, box.w, 14}, textStyle(8, ink, true), fmt.Sprintf("broker %d", b.ID))
		p.left(rect{box.x, box.y + 14, box.w, 13}, soft, brokerTopics(b))
		y += 34
	}
	for _, g := range c.Groups {
		p.left(rect{r.x + 4, y + 2, r.w - 8, siteRow}, small, fmt.Sprintf("group %s: %s", g.Name, plural(len(g.Members), "consumer")))
		y += siteRow
	}
	for _, l := range c.Loads {
		p.left(rect{r.x + 4, y + 2, r.w - 8, siteRow}, small, l.Name+" < "+strings.Join(l.Topics, ", "))
		y += siteRow
	}
}

// brokerTopics lists the topics of a broker with their numbers of partitions.
func brokerTopics(b ClusterBroker) string {
	var names []string
	n := map[string]int{}
	for _, p := range b.Partitions {
		if n[p.Topic] == 0 {
			names = append(names, p.Topic)
		}
		n[p.Topic]++
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, n[name])
	}
	return strings.Join(names, ", ")
}

// drawMirror draws an arrow that ends at so many points below the upper edge of
// the box it leads to.
func drawMirror(p *pen, m Mirror, from, to rect, below float64) {
	strong, soft := textStyle(8, ink, true), textStyle(7.2, softInk, false)
	start, end := spot{from.right(), from.y + from.h/2}, spot{to.x - 1, to.y + below}
	if to.x <= from.x { // back, or within a column
		start, end = spot{from.x + from.w/2, from.bottom()}, spot{to.x + to.w/2, to.y - 1}
	}
	p.arrow(boxInk, 1.4, nil, start, end)
	at := rect{(start.x+end.x)/2 - 42, (start.y+end.y)/2 - 15, 84, 30}
	p.frame(at, white, boxInk, 0.8)
	p.centred(rect{at.x, at.y + 2, at.w, 13}, strong, "mirror")
	p.centred(rect{at.x, at.y + 15, at.w, 12}, soft, strings.Join(m.Topics, ", "))
}
