package plots

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is rows of text under a head, to be written for a terminal or as
// Markdown, or laid out by somebody else. Every row is as long as the head.
type Table struct {
	Head []string
	Rows [][]string
	left map[int]bool // columns beside the first that do not stand right
}

// format is one of the two ways to write text.
type format struct {
	table     func(*Table, io.Writer) error
	paragraph func(string) string
	title     string // of all, with %s for the words
	heading   string // of a scenario
	part      string // of a further table of it
	wide      bool   // tables of many words fit
}

var (
	asText     = format{(*Table).Text, fill, "%s\n\n", "%s\n\n", "\n%s\n\n", false}
	asMarkdown = format{(*Table).Markdown, escape, "# %s\n\n", "## %s\n\n", "\n### %s\n\n", true}
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

func (t *Table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

// IsLeft says whether a column, counted from 0, stands left, as words do;
// numbers stand right.
func (t *Table) IsLeft(column int) bool { return column == 0 || t.left[column] }

// Text writes the table with its columns in line.
func (t *Table) Text(w io.Writer) error {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	b := bufio.NewWriter(w)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.IsLeft(i) {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
	return b.Flush()
}

// Markdown writes the table for a page.
func (t *Table) Markdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	line := func(cells []string) {
		for _, cell := range cells {
			fmt.Fprintf(b, "| %s ", escape(cell))
		}
		fmt.Fprintln(b, "|")
	}
	line(t.Head)
	for i := range t.Head {
		if t.IsLeft(i) {
			fmt.Fprint(b, "|---")
		} else {
			fmt.Fprint(b, "|---:")
		}
	}
	fmt.Fprintln(b, "|")
	for _, row := range t.Rows {
		line(row)
	}
	return b.Flush()
}

// escape keeps a cell a cell: settings and reasons come from outside.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", "", "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`").Replace(s)
}
