package plots

import (
	"fmt"
	"slices"
	"strings"
)

// The shades of boxes.
var (
	boxInk   = rgb(0x57, 0x60, 0x6a)
	boxShade = rgb(0xf3, 0xf5, 0xf8)
	white    = rgb(0xff, 0xff, 0xff)
)

// groupInks tell the lines of groups apart, with groupDashes in grey print.
var (
	groupInks   = []int{0x004c8c, 0xd55e00, 0x006b4f, 0x7d2a9c}
	groupDashes = [][]float64{nil, {4, 2}, {1.5, 1.5}, {6, 2, 1.5, 2}}
)

// Measures of Figure 1, in points.
const (
	clusterPartition = 40.0 // least width of a partition
	clusterMember    = 86.0 // least width of a member of a group
	clusterProducer  = 84.0
	clusterZooKeeper = 104.0
)

// clusterPicture is Figure 1: producers above, brokers with their partitions,
// groups with their members below, and a line from each partition to who owns
// it.
func clusterPicture(c Cluster) picture {
	f := clusterFrame(c)
	return picture{
		title: fmt.Sprintf("Figure 1. Brokers, partitions, producers and groups of the cluster %q", c.Name),
		caption: []string{
			fmt.Sprintf("Drawn from what %s holds of a live cluster: %s. A line leads from each partition to the member of a group that owns it; beside it stands the offset that the group has committed there, in bytes. Producers are not in ZooKeeper: they are those that were started.",
				c.ZooKeeper, clusterCounts(c)),
		},
		width: f.width, height: f.height,
		draw: func(p *pen) { f.draw(p, c) },
	}
}

func clusterCounts(c Cluster) string {
	topics, partitions, unowned := map[string]bool{}, 0, 0
	for _, b := range c.Brokers {
		for _, p := range b.Partitions {
			topics[p.Topic] = true
			partitions++
		}
	}
	for _, g := range c.Groups {
		for _, p := range g.Partitions {
			if p.Owner == nil {
				unowned++
			}
		}
	}
	return fmt.Sprintf("%s, %s, %s, %s; partitions without an owner: %d", plural(len(c.Brokers), "broker"), plural(len(topics), "topic"), plural(partitions, "partition"), plural(len(c.Groups), "consumer group"), unowned)
}

// clusterLayout is where the parts of Figure 1 stand.
type clusterLayout struct {
	width, height float64
	producers     []rect
	brokers       []rect
	partitions    map[placed]rect
	groups        []rect
	members       [][]rect
	zookeeper     rect
}

func clusterFrame(c Cluster) clusterLayout {
	f := clusterLayout{partitions: map[placed]rect{}}
	inner := 0.0
	for _, b := range c.Brokers {
		inner += max(3, float64(len(b.Partitions)))*(clusterPartition+4) + 16
	}
	members := 0.0
	for _, g := range c.Groups {
		members += max(1, float64(len(g.Members)))*(clusterMember+6) + 18
	}
	inner = max(inner, members, float64(len(c.Producers))*(clusterProducer+10), pageWidth-2*margin-clusterZooKeeper-26)
	f.width = inner + 2*margin + clusterZooKeeper + 26

	y := 14.0
	if len(c.Producers) > 0 {
		f.producers = shares(margin, y, inner, 34, 14, len(c.Producers))
		for i, r := range f.producers { // not wider than they need be
			w := min(r.w, 150)
			f.producers[i] = rect{r.middle() - w/2, r.y, w, r.h}
		}
		y += 34 + 46
	}
	total := 0.0
	for _, b := range c.Brokers {
		total += max(3, float64(len(b.Partitions)))
	}
	x := margin
	for _, b := range c.Brokers {
		w := (inner - 12*float64(len(c.Brokers)-1)) * max(3, float64(len(b.Partitions))) / total
		r := rect{x, y, w, 74}
		f.brokers = append(f.brokers, r)
		if n := len(b.Partitions); n > 0 {
			for i, at := range shares(r.x+8, r.y+24, r.w-16, 42, 4, n) {
				p := b.Partitions[i]
				f.partitions[placed{p.Topic, b.ID, p.Partition}] = at
			}
		}
		x += w + 12
	}
	top := y
	y += 74
	if len(c.Groups) > 0 {
		y += 92
		f.placeGroups(c, inner, y)
		y += f.groups[0].h
	}
	f.zookeeper = rect{margin + inner + 26, top, clusterZooKeeper, y - top}
	f.height = y + 8
	return f
}

func (f *clusterLayout) placeGroups(c Cluster, inner, y float64) {
	total, most := 0.0, 0
	for _, g := range c.Groups {
		total += max(1, float64(len(g.Members)))
		for _, m := range g.Members {
			most = max(most, len(owned(g, m)))
		}
	}
	height := 22 + 22 + 10*float64(most) + 10
	x := margin
	for _, g := range c.Groups {
		w := (inner - 14*float64(len(c.Groups)-1)) * max(1, float64(len(g.Members))) / total
		r := rect{x, y, w, height}
		f.groups = append(f.groups, r)
		var members []rect
		if n := len(g.Members); n > 0 {
			members = shares(r.x+7, r.y+8, r.w-14, height-8-22, 6, n)
		}
		f.members = append(f.members, members)
		x += w + 14
	}
}

// owned are the partitions of a group that a member's streams own.
func owned(g Group, m Member) []GroupPartition {
	var out []GroupPartition
	for _, p := range g.Partitions {
		if p.Owner != nil && slices.Contains(m.Streams, *p.Owner) {
			out = append(out, p)
		}
	}
	return out
}

func (f clusterLayout) draw(p *pen, c Cluster) {
	small, strong, soft := textStyle(7.6, ink, false), textStyle(8.4, ink, true), textStyle(7.2, softInk, false)
	f.drawProducers(p, c)
	for i, b := range c.Brokers {
		r := f.brokers[i]
		p.frame(r, boxShade, boxInk, 0.9)
		p.left(rect{r.x + 2, r.y + 2, r.w - 4, 20}, strong, fmt.Sprintf("broker %d", b.ID))
		at := 14 + float64(strong.Width(fmt.Sprintf("broker %d", b.ID)))
		p.left(rect{r.x + at, r.y + 2, r.w - at, 20}, soft, b.Address)
		for _, part := range b.Partitions {
			box := f.partitions[placed{part.Topic, b.ID, part.Partition}]
			p.frame(box, white, axisInk, 0.6)
			p.centred(rect{box.x, box.y + 2, box.w, 12}, small, part.Topic)
			p.centred(rect{box.x, box.y + 13, box.w, 12}, textStyle(8.4, ink, true), fmt.Sprintf("%d-%d", b.ID, part.Partition))
			p.centred(rect{box.x, box.y + 26, box.w, 12}, soft, plural(int(part.Segments), "file"))
		}
	}
	for i, g := range c.Groups {
		f.drawGroup(p, g, i)
	}
	f.drawZooKeeper(p, c)
}

func (f clusterLayout) drawProducers(p *pen, c Cluster) {
	strong, soft := textStyle(8.4, ink, true), textStyle(7.2, softInk, false)
	for i, producer := range c.Producers {
		r := f.producers[i]
		for j, b := range c.Brokers {
			if slices.ContainsFunc(b.Partitions, func(q BrokerPartition) bool { return slices.Contains(producer.Topics, q.Topic) }) {
				to := f.brokers[j]
				x := to.x + to.w*(float64(i)+1)/(float64(len(c.Producers))+1)
				p.arrow(boxInk, 0.8, nil, spot{r.middle(), r.bottom()}, spot{x, to.y - 0.5})
			}
		}
		p.frame(r, white, boxInk, 0.9)
		p.centred(rect{r.x, r.y + 2, r.w, 16}, strong, producer.Name)
		p.centred(rect{r.x, r.y + 17, r.w, 13}, soft, "publishes "+strings.Join(producer.Topics, ", "))
	}
}

func (f clusterLayout) drawGroup(p *pen, g Group, i int) {
	colour := groupInks[i%len(groupInks)]
	tint := rgb(uint8(colour>>16), uint8(colour>>8), uint8(colour))
	small, soft := textStyle(7.6, ink, true), textStyle(7.0, softInk, false)
	r := f.groups[i]
	p.frame(r, fade(tint, 0x12), tint, 0.9, groupDashes[i%len(groupDashes)]...)
	p.centred(rect{r.x, r.bottom() - 20, r.w, 18}, textStyle(8.4, tint, true), "group "+g.Name)
	for j, m := range g.Members {
		box := f.members[i][j]
		mine := owned(g, m)
		for k, part := range mine {
			from := f.partitions[placed{part.Topic, part.BrokerID, part.Partition}]
			x := from.x + from.w*(float64(i)+1)/(float64(len(f.groups))+1)
			to := box.x + box.w*(float64(k)+1)/(float64(len(mine))+1)
			p.arrow(tint, 0.9, groupDashes[i%len(groupDashes)], spot{x, from.bottom()}, spot{to, box.y - 0.5})
		}
		p.frame(box, white, tint, 0.7)
		p.centred(rect{box.x, box.y + 2, box.w, 14}, small, memberName(g, m))
		for k, part := range mine {
			p.centred(rect{box.x, box.y + 16 + 10*float64(k), box.w, 10}, soft, fmt.Sprintf("%s %d-%d: %s", part.Topic, part.BrokerID, part.Partition, offsetText(part.Committed)))
		}
	}
}

// memberName leaves out the group's name, which stands at the front of its
// consumers' IDs.
func memberName(g Group, m Member) string { return strings.TrimPrefix(m.Consumer, g.Name+"_") }

func offsetText(offset *int64) string {
	if offset == nil {
		return "none committed"
	}
	return number(float64(*offset))
}

// drawZooKeeper draws the box of what ZooKeeper holds: the four registries of
// NetDB'11 §3.2.
func (f clusterLayout) drawZooKeeper(p *pen, c Cluster) {
	r := f.zookeeper
	small, strong, soft := textStyle(7.6, ink, false), textStyle(8.4, ink, true), textStyle(7.0, softInk, false)
	last := f.brokers[len(f.brokers)-1]
	p.line(axisInk, 0.8, []float64{2, 2}, spot{last.right(), last.y + 37}, spot{r.x, last.y + 37})
	p.frame(r, white, boxInk, 0.9)
	p.centred(rect{r.x, r.y + 3, r.w, 16}, strong, "ZooKeeper")
	owners, offsets, consumers := 0, 0, 0
	for i, g := range c.Groups {
		consumers += len(g.Members)
		for _, q := range g.Partitions {
			if q.Owner != nil {
				owners++
			}
			if q.Committed != nil {
				offsets++
			}
		}
		if i == len(c.Groups)-1 {
			p.line(axisInk, 0.8, []float64{2, 2}, spot{f.groups[i].right(), f.groups[i].y + f.groups[i].h/2}, spot{r.x, f.groups[i].y + f.groups[i].h/2})
		}
	}
	rows := []struct {
		n    int
		what string
		kind string
	}{{len(c.Brokers), "broker", "end with their session"}, {consumers, "consumer", "end with their session"}, {owners, "owner", "end with their session"}, {offsets, "offset", "stay"}}
	each := min((r.h-24)/float64(len(rows)), 44)
	for i, row := range rows {
		y := r.y + 24 + each*float64(i)
		p.left(rect{r.x + 4, y, r.w - 8, 12}, small, plural(row.n, row.what))
		p.left(rect{r.x + 4, y + 11, r.w - 8, 11}, soft, row.kind)
	}
}
