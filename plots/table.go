package plots

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is rows of text under a head, to be written for a terminal or as
// Markdown. The first column stands left, all others right unless left says
// otherwise.
type table struct {
	head []string
	left map[int]bool
	rows [][]string
}

// format is one of the two ways to write text.
type format struct {
	table     func(*table, io.Writer) error
	paragraph func(string) string
	title     string // of all, with %s for the words
	heading   string // of a part of it
}

var (
	asText     = format{(*table).text, fill, "%s\n\n", "%s\n\n"}
	asMarkdown = format{(*table).markdown, escape, "# %s\n\n", "## %s\n\n"}
)

// fill breaks a paragraph into lines that fit a terminal.
func fill(s string) string {
	const columns = 100
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+n > columns:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) isLeft(column int) bool { return column == 0 || t.left[column] }

// text writes the table with its columns in line.
func (t *table) text(w io.Writer) error {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	b := bufio.NewWriter(w)
	for _, row := range append([][]string{t.head}, t.rows...) {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.isLeft(i) {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
	return b.Flush()
}

// markdown writes the table for a page.
func (t *table) markdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	line := func(cells []string) {
		for _, cell := range cells {
			fmt.Fprintf(b, "| %s ", escape(cell))
		}
		fmt.Fprintln(b, "|")
	}
	line(t.head)
	for i := range t.head {
		if t.isLeft(i) {
			fmt.Fprint(b, "|---")
		} else {
			fmt.Fprint(b, "|---:")
		}
	}
	fmt.Fprintln(b, "|")
	for _, row := range t.rows {
		line(row)
	}
	return b.Flush()
}

// escape keeps a cell a cell: settings and reasons come from outside.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", "", "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`").Replace(s)
}
