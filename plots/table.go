package plots

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
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
	words     func(string) string // of a title, a heading or a part
	title     string              // of all, with %s for the words
	heading   string              // of a scenario
	part      string              // of a further table of it
	wide      bool                // tables of many words fit
}

var (
	asText     = format{(*Table).Text, fill, visible, "%s\n\n", "%s\n\n", "\n%s\n\n", false}
	asMarkdown = format{(*Table).Markdown, escape, escape, "# %s\n\n", "## %s\n\n", "\n### %s\n\n", true}
)

// fill breaks a paragraph into lines that fit a terminal.
func fill(s string) string {
	const columns = 100
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(visible(s)) {
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

// StandLeft has columns of words, counted from 0, stand left as the first does.
func (t *Table) StandLeft(columns ...int) {
	if t.left == nil {
		t.left = map[int]bool{}
	}
	for _, c := range columns {
		t.left[c] = true
	}
}

// IsLeft says whether a column, counted from 0, stands left, as words do;
// numbers stand right.
func (t *Table) IsLeft(column int) bool { return column == 0 || t.left[column] }

// Text writes the table with its columns in line.
func (t *Table) Text(w io.Writer) error {
	widths := make([]int, len(t.Head))
	var lines [][]string
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		shown := make([]string, len(row))
		for i, cell := range row {
			shown[i] = visible(cell)
			widths[i] = max(widths[i], utf8.RuneCountInString(shown[i]))
		}
		lines = append(lines, shown)
	}
	b := bufio.NewWriter(w)
	for _, row := range lines {
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
	return t.MarkdownLinked(w, func(int, int) string { return "" })
}

// MarkdownLinked writes the table for a page, with a link at each cell for which
// link has one. Rows and columns count from 0, and the head is no row.
func (t *Table) MarkdownLinked(w io.Writer, link func(row, column int) string) error {
	b := bufio.NewWriter(w)
	line := func(cells []string, link func(column int) string) {
		for i, cell := range cells {
			if to := link(i); to != "" {
				fmt.Fprintf(b, "| [%s](%s) ", escape(cell), to)
			} else {
				fmt.Fprintf(b, "| %s ", escape(cell))
			}
		}
		fmt.Fprintln(b, "|")
	}
	line(t.Head, func(int) string { return "" })
	for i := range t.Head {
		if t.IsLeft(i) {
			fmt.Fprint(b, "|---")
		} else {
			fmt.Fprint(b, "|---:")
		}
	}
	fmt.Fprintln(b, "|")
	for i, row := range t.Rows {
		line(row, func(column int) string { return link(i, column) })
	}
	return b.Flush()
}

var markdownMarks = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`)

// escape keeps a cell a cell, and makes no link of it: settings and reasons
// come from outside.
func escape(s string) string { return markdownMarks.Replace(visible(s)) }

// visible makes one line of a text, without what would command the terminal or
// turn the text that follows it around.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == '\r':
			return -1
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return '?'
		}
		return r
	}, s)
}
