package audit

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
	"time"
)

// Measures of the figure, in pixels.
const (
	figureWidth = 960
	figureLeft  = 90
	figureRight = 20
	panelHeight = 120
	panelGap    = 46
	figureTop   = 56
	figureFoot  = 66

	// maxColumns bounds the columns of a panel: windows share one where there are more.
	maxColumns = (figureWidth - figureLeft - figureRight) / 2
)

// Colours of the columns, the worst of a column's windows deciding, and what they say.
var figureColours = []struct {
	verdict Verdict
	colour  string
	means   string
}{
	{Complete, "#4c9f70", "complete"},
	{Doubled, "#e0a530", "all there, some doubled"},
	{Missing, "#c0392b", "missing"},
	{Unreported, "#7d3c98", "unreported: nobody knows how many were made"},
	{Open, "#b8bfc6", "still open"},
}

// column is what a figure shows of a stretch of time in one tier.
type column struct {
	made, counted uint64
	worst         Row // the verdict alone
	any           bool
}

// Figure writes an SVG image of the completeness of each tier over time: a panel for
// each tier, and in it a column for each window, all topics and servers together, as
// high as the share of the messages made that have come. The same report gives the same
// bytes.
func (r *Report) Figure(w io.Writer) error {
	out := bufio.NewWriter(w)
	height := figureTop + len(r.Tiers)*(panelHeight+panelGap) - panelGap + figureFoot
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", figureWidth, height, figureWidth, height)
	fmt.Fprintf(out, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	fmt.Fprintf(out, `<text x="%d" y="26" font-size="16">Completeness of each tier, by the time of making</text>`+"\n", figureLeft)
	begin, end := r.span()
	for i := range r.Tiers {
		r.panel(out, &r.Tiers[i], figureTop+i*(panelHeight+panelGap), begin, end)
	}
	foot := figureTop + len(r.Tiers)*(panelHeight+panelGap) - panelGap
	fmt.Fprintf(out, `<text x="%d" y="%d">%s</text>`+"\n", figureLeft, foot+20, begin.Format("2006-01-02 15:04:05"))
	fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="end">%s UTC</text>`+"\n", figureWidth-figureRight, foot+20, end.Format("2006-01-02 15:04:05"))
	x := figureLeft
	for _, c := range figureColours {
		fmt.Fprintf(out, `<rect x="%d" y="%d" width="11" height="11" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, foot+38, c.colour, x+16, foot+48, c.means)
		x += 40 + 7*len(c.means)
	}
	fmt.Fprintln(out, "</svg>")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("audit: write the figure: %w", err)
	}
	return nil
}

// span returns the time that the rows are in.
func (r *Report) span() (begin, end time.Time) {
	for i := range r.Rows {
		from := r.Rows[i].Window
		to := from.Add(time.Duration(r.Rows[i].LengthMs) * time.Millisecond)
		if i == 0 || from.Before(begin) {
			begin = from
		}
		if i == 0 || to.After(end) {
			end = to
		}
	}
	if !end.After(begin) { // there are no rows
		begin, end = r.At.Truncate(time.Second), r.At.Truncate(time.Second).Add(time.Second)
	}
	return begin, end
}

// columns puts the rows of a tier into columns of equal length in time.
func (r *Report) columns(tier string, begin, end time.Time) []column {
	length := int64(math.MaxInt64)
	for i := range r.Rows {
		length = min(length, r.Rows[i].LengthMs)
	}
	n := min(maxColumns, max(int(end.Sub(begin).Milliseconds()/max(length, 1)), 1))
	columns := make([]column, n)
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Tier != tier {
			continue
		}
		c := &columns[min(int(float64(n)*float64(row.Window.Sub(begin))/float64(end.Sub(begin))), n-1)]
		if !c.any {
			c.any, c.worst.Verdict = true, Complete
		}
		c.worst.judge(row.Verdict)
		c.made += max(row.Made, row.Counted) // what is unreported was made, too
		c.counted += row.Counted
		if row.Made == 0 {
			c.made += row.Missing
		}
	}
	return columns
}

// panel draws one tier.
func (r *Report) panel(out io.Writer, t *TierSums, top int, begin, end time.Time) {
	width := figureWidth - figureLeft - figureRight
	fmt.Fprintf(out, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", figureLeft, top-6, html.EscapeString(t.Tier))
	fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="end" fill="#555">%d made, %d counted, %d missing, %d doubled, %d unreported</text>`+"\n",
		figureWidth-figureRight, top-6, t.Made, t.Counted, t.Missing, t.Doubled, t.Unreported)
	for _, percent := range []int{0, 50, 100} {
		y := top + panelHeight - panelHeight*percent/100
		fmt.Fprintf(out, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#ddd"/><text x="%d" y="%d" text-anchor="end">%d %%</text>`+"\n",
			figureLeft, y, figureWidth-figureRight, y, figureLeft-8, y+4, percent)
	}
	columns := r.columns(t.Tier, begin, end)
	each := float64(width) / float64(len(columns))
	for i, c := range columns {
		if !c.any {
			continue // a gap is a gap
		}
		share := 1.0
		if c.made > 0 {
			share = float64(c.counted) / float64(c.made)
		}
		high := max(share*panelHeight, 1)
		colour := ""
		for _, f := range figureColours {
			if f.verdict == c.worst.Verdict {
				colour = f.colour
			}
		}
		fmt.Fprintf(out, `<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s"/>`+"\n", figureLeft+float64(i)*each, float64(top)+panelHeight-high, max(each-0.5, 0.5), high, colour)
	}
}
