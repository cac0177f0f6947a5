package plots

import (
	"fmt"
	"slices"
)

// Measures of Figure 2, in points.
const (
	logRow    = 40.0
	logHead   = 42.0
	logCell   = 64.0
	logFoot   = 26.0
	logList   = 96.0
	logFileX  = margin + logList + 62
	mostFiles = 8 // drawn; of more, those at both ends
)

// logPicture is Figure 2: the list of base offsets that the broker holds in
// memory, and the segment files that it leads to.
func logPicture(l *PartitionLog) picture {
	rows := logRows(l)
	last := l.Segments[len(l.Segments)-1]
	return picture{
		title: fmt.Sprintf("Figure 2. The log of partition %d of topic %s", l.Partition, l.Topic),
		caption: []string{
			fmt.Sprintf("Drawn from the files of a live broker (%s) and from the base offsets that it answers with: %s, a new one when the last is larger than %s bytes. A message is addressed by the offset in bytes at which it begins, and the next one by that plus its size. To find one the broker searches its list, and then knows file and position.",
				l.Broker, plural(len(l.Segments), "segment file"), number(float64(l.SegmentBytes))),
			fmt.Sprintf("What lies before the watermark, %s, is flushed and visible to consumers; the log ends at %s.", number(float64(l.Watermark)), number(float64(last.End))),
		},
		width: pageWidth, height: logHead + logRow*float64(len(rows)) + logFoot,
		draw: func(p *pen) { drawLog(p, l, rows) },
	}
}

// logRows are the segments that are drawn, by their places; -1 stands for those
// left out.
func logRows(l *PartitionLog) []int {
	n := len(l.Segments)
	var rows []int
	for i := range n {
		switch {
		case n <= mostFiles || i < mostFiles/2 || i >= n-mostFiles/2:
			rows = append(rows, i)
		case !slices.Contains(rows, -1):
			rows = append(rows, -1)
		}
	}
	return rows
}

func drawLog(p *pen, l *PartitionLog, rows []int) {
	strong, soft, small := textStyle(8.4, ink, true), textStyle(7.4, softInk, false), textStyle(7.8, ink, false)
	p.left(rect{margin - 4, 8, logList + 40, 14}, strong, "list in memory")
	p.left(rect{logFileX - 4, 8, 300, 14}, strong, "segment files on disk")
	p.left(rect{logFileX - 4, 21, pageWidth, 12}, soft, "each message by the offset at which it begins")
	p.left(rect{margin - 4, 21, logList + 40, 12}, soft, "base offset of each file")
	y := logHead
	for place, i := range rows {
		cell := rect{margin, y, logList, logRow}
		p.frame(cell, boxShade, boxInk, 0.8)
		if i < 0 {
			p.centred(cell, small, "...")
			p.centred(rect{logFileX, y, pageWidth - margin - logFileX, logRow}, soft, fmt.Sprintf("%d more", len(l.Segments)-len(rows)+1))
			y += logRow
			continue
		}
		p.centred(cell, textStyle(8.6, ink, true), number(float64(l.Bases[i])))
		p.arrow(boxInk, 0.9, nil, spot{cell.right(), y + logRow/2}, spot{logFileX - 2, y + logRow/2})
		drawSegment(p, l, i, rect{logFileX, y + 3, pageWidth - margin - logFileX, logRow - 6})
		if place == 0 {
			const says = "deleted from this end, by age or size"
			w := float64(soft.Width(says)) + 10
			p.left(rect{pageWidth - margin - w, 21, w, 12}, soft, says)
		}
		y += logRow
	}
	p.left(rect{logFileX - 4, y + 4, 300, 12}, soft, "appended at this end, to the last file alone")
}

// drawSegment draws a file as a row: its name, its messages, how many.
func drawSegment(p *pen, l *PartitionLog, i int, r rect) {
	s := l.Segments[i]
	soft, small := textStyle(7.0, softInk, false), textStyle(7.8, ink, false)
	line := 0.8
	if i == len(l.Segments)-1 {
		line = 1.6
	}
	p.frame(r, white, boxInk, line)
	p.left(rect{r.x, r.y + 1, 200, 12}, soft, s.File)
	right := fmt.Sprintf("%s, %s bytes", plural(int(s.Messages), "message"), number(float64(s.End-s.Base)))
	w := float64(soft.Width(right)) + 10
	p.left(rect{r.right() - w, r.y + 1, w, 12}, soft, right)
	cells := logCells(s, int((r.w-8)/logCell))
	x := r.x + 4
	for k, m := range cells {
		box := rect{x, r.y + 14, logCell - 3, r.h - 18}
		if m == nil {
			p.centred(box, small, "...")
		} else {
			shade := boxShade
			if m.Next > l.Watermark { // not visible yet
				shade = rgb(0xff, 0xf1, 0xd6)
			}
			p.frame(box, shade, axisInk, 0.6)
			p.centred(box, small, number(float64(m.Offset)))
		}
		if end := x + logCell - 1.5; m != nil && m.Next == l.Watermark && k == len(cells)-1 {
			mark := rgb(0xd5, 0x5e, 0x00)
			p.line(mark, 1.4, nil, spot{end, r.y + 11}, spot{end, r.bottom() + 1})
			p.left(rect{end, r.y + 13, 90, r.h - 16}, textStyle(7.4, mark, true), "watermark")
		}
		x += logCell
	}
}

// logCells are the messages that are drawn of a segment, at most so many cells
// with one for what is left out, which is nil.
func logCells(s LogSegment, most int) []*LogMessage {
	n := len(s.Shown)
	most = max(most-1, 3) // one is left free for the watermark
	var cells []*LogMessage
	all := int64(n) == s.Messages && n <= most
	head := n
	if !all {
		head = min((most-1)/2, n)
	}
	for i := range head {
		cells = append(cells, &s.Shown[i])
	}
	if all {
		return cells
	}
	cells = append(cells, nil)
	for i := max(head, n-(most-1-head)); i < n; i++ {
		cells = append(cells, &s.Shown[i])
	}
	return cells
}
