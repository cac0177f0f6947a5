package paper

import (
	"fmt"
	"html"
	"html/template"
	"regexp"
	"strings"
)

// markdownHTML turns the Markdown that this repository writes into HTML:
// headings, paragraphs, lists with one level below, tables, code, strong and
// emphasised words, links. Everything else stays as it was typed. Headings sink
// by so many levels.
func markdownHTML(text string, sink int) template.HTML {
	m := &markdown{lines: strings.Split(strings.TrimRight(text, "\n"), "\n"), sink: sink}
	for m.at < len(m.lines) {
		m.block()
	}
	return template.HTML(m.out.String())
}

type markdown struct {
	lines []string
	at    int // the next line
	sink  int
	out   strings.Builder
}

var (
	headingLine = regexp.MustCompile(`^(#{1,4}) (.*)$`)
	itemLine    = regexp.MustCompile(`^( *)- (.*)$`)
	ruleLine    = regexp.MustCompile(`^\|(?: *:?-+:? *\|)+$`)
)

// block takes the lines of one block.
func (m *markdown) block() {
	line := m.lines[m.at]
	switch {
	case strings.TrimSpace(line) == "":
		m.at++
	case headingLine.MatchString(line):
		part := headingLine.FindStringSubmatch(line)
		level := min(len(part[1])+m.sink, 6)
		fmt.Fprintf(&m.out, "<h%d>%s</h%d>\n", level, inline(part[2]), level)
		m.at++
	case itemLine.MatchString(line):
		m.list(len(itemLine.FindStringSubmatch(line)[1]))
	case m.at+1 < len(m.lines) && strings.HasPrefix(line, "|") && ruleLine.MatchString(m.lines[m.at+1]):
		m.table()
	default:
		fmt.Fprintf(&m.out, "<p>%s</p>\n", inline(m.paragraph(line)))
	}
}

// paragraph takes a line and those that belong to it.
func (m *markdown) paragraph(first string) string {
	words := []string{strings.TrimSpace(first)}
	for m.at++; m.at < len(m.lines); m.at++ {
		line := m.lines[m.at]
		if strings.TrimSpace(line) == "" || headingLine.MatchString(line) || itemLine.MatchString(line) || strings.HasPrefix(line, "|") {
			break
		}
		words = append(words, strings.TrimSpace(line))
	}
	return strings.Join(words, " ")
}

// list takes the items that are indented by so many blanks, and what is
// indented further as a list in the item before.
func (m *markdown) list(indent int) {
	m.out.WriteString("<ul>\n")
	for m.at < len(m.lines) {
		part := itemLine.FindStringSubmatch(m.lines[m.at])
		if part == nil || len(part[1]) < indent {
			break
		}
		m.out.WriteString("<li>" + inline(m.paragraph(part[2])))
		if m.at < len(m.lines) {
			if below := itemLine.FindStringSubmatch(m.lines[m.at]); below != nil && len(below[1]) > indent {
				m.out.WriteString("\n")
				m.list(len(below[1]))
			}
		}
		m.out.WriteString("</li>\n")
	}
	m.out.WriteString("</ul>\n")
}

func (m *markdown) table() {
	row := func(line, tag string) {
		m.out.WriteString("<tr>")
		for _, cell := range strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			fmt.Fprintf(&m.out, "<%s>%s</%s>", tag, inline(strings.TrimSpace(cell)), tag)
		}
		m.out.WriteString("</tr>\n")
	}
	m.out.WriteString("<div class=\"scroll\"><table class=\"words\">\n<thead>")
	row(m.lines[m.at], "th")
	m.out.WriteString("</thead>\n<tbody>\n")
	for m.at += 2; m.at < len(m.lines) && strings.HasPrefix(m.lines[m.at], "|"); m.at++ {
		row(m.lines[m.at], "td")
	}
	m.out.WriteString("</tbody></table></div>\n")
}

var marks = regexp.MustCompile("`([^`]+)`" + `|\*\*(.+?)\*\*|\*([^* ][^*]*)\*|\[([^\]]+)\]\(([^) ]+)\)`)

// inline turns the marks within a line into HTML.
func inline(text string) string {
	var b strings.Builder
	for {
		at := marks.FindStringSubmatchIndex(text)
		if at == nil {
			b.WriteString(html.EscapeString(text))
			return b.String()
		}
		part := func(i int) string { return text[at[2*i]:at[2*i+1]] }
		b.WriteString(html.EscapeString(text[:at[0]]))
		switch {
		case at[2] >= 0:
			b.WriteString("<code>" + html.EscapeString(part(1)) + "</code>")
		case at[4] >= 0:
			b.WriteString("<strong>" + inline(part(2)) + "</strong>")
		case at[6] >= 0:
			b.WriteString("<em>" + inline(part(3)) + "</em>")
		default:
			b.WriteString(`<a href="` + html.EscapeString(part(5)) + `">` + inline(part(4)) + "</a>")
		}
		text = text[at[1]:]
	}
}
