package paper

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// node is an element of a page as a test reads it.
type node struct {
	name     string
	attrs    []xml.Attr
	parent   *node
	children []*node
	words    strings.Builder // of it and what is in it
}

// parsePage reads a page, which must be closed in every element but those that
// have no end.
func parsePage(t testing.TB, page []byte) *node {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	root := &node{}
	at := root
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			child := &node{name: token.Name.Local, attrs: token.Copy().Attr, parent: at}
			at.children = append(at.children, child)
			at = child
		case xml.EndElement:
			if at.name != token.Name.Local {
				t.Fatalf("</%s> ends <%s>", token.Name.Local, at.name)
			}
			at = at.parent
		case xml.CharData:
			for n := at; n != nil; n = n.parent {
				n.words.Write(token)
			}
		}
	}
	if at != root {
		t.Fatalf("<%s> is not closed", at.name)
	}
	return root
}

func (n *node) attr(name string) string {
	for _, a := range n.attrs {
		if full := a.Name.Local; full == name || a.Name.Space+":"+full == name {
			return a.Value
		}
	}
	return ""
}

// text is what the element says, with single blanks.
func (n *node) text() string { return strings.Join(strings.Fields(n.words.String()), " ") }

// all returns the elements below of that name, or all of them, in order.
func (n *node) all(name string) []*node {
	var out []*node
	for _, c := range n.children {
		if name == "" || c.name == name {
			out = append(out, c)
		}
		out = append(out, c.all(name)...)
	}
	return out
}

func (n *node) texts(name string) []string {
	var out []string
	for _, c := range n.all(name) {
		out = append(out, c.text())
	}
	return out
}

func (n *node) byID(t testing.TB, id string) *node {
	t.Helper()
	for _, c := range n.all("") {
		if c.attr("id") == id {
			return c
		}
	}
	t.Fatalf("no element has the id %s", id)
	return nil
}

// withHeading returns the section whose heading holds these words.
func (n *node) withHeading(t testing.TB, words string) *node {
	t.Helper()
	for _, c := range n.all("section") {
		if len(c.children) > 0 && strings.HasPrefix(c.children[0].name, "h") && strings.Contains(c.children[0].text(), words) {
			return c
		}
	}
	t.Fatalf("no section is headed %q", words)
	return nil
}

// tables returns the rows of the table behind the heading, the head first; of a
// table in several parts with their columns side by side again.
func (n *node) tables(t testing.TB, heading string) [][]string {
	t.Helper()
	for i, c := range n.children {
		if c.name == "h4" && c.text() == heading && i+1 < len(n.children) {
			var rows [][]string
			for part, table := range n.children[i+1].all("table") {
				for j, tr := range table.all("tr") {
					cells := append(tr.texts("th"), tr.texts("td")...)
					switch {
					case part == 0:
						rows = append(rows, cells)
					case rows[j][0] != cells[0]:
						t.Fatalf("%s: row %d of part %d is of %q, and not of %q", heading, j, part, cells[0], rows[j][0])
					default:
						rows[j] = append(rows[j], cells[1:]...)
					}
				}
			}
			return rows
		}
	}
	t.Fatalf("no table %q", heading)
	return nil
}

func TestMarkdownHTML(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"# Title\n\nOne line,\nand *another* **one** with `code <b>`.\n", "<h2>Title</h2>\n<p>One line, and <em>another</em> <strong>one</strong> with <code>code &lt;b&gt;</code>.</p>\n"},
		{"- a\n  goes on\n- b\n  - below\n  - again\n- c\n", "<ul>\n<li>a goes on</li>\n<li>b\n<ul>\n<li>below</li>\n<li>again</li>\n</ul>\n</li>\n<li>c</li>\n</ul>\n"},
		{"| | x & y |\n|---|---:|\n| a | **b** |\n\nEnd\n", "<div class=\"scroll\"><table class=\"words\">\n<thead><tr><th></th><th>x &amp; y</th></tr>\n</thead>\n<tbody>\n<tr><td>a</td><td><strong>b</strong></td></tr>\n</tbody></table></div>\n<p>End</p>\n"},
		{"[words](a/b.md) and 2 * 3 * 4 < 5\n", "<p><a href=\"a/b.md\">words</a> and 2 * 3 * 4 &lt; 5</p>\n"},
		{"####### seven\n", "<p>####### seven</p>\n"},
		{"", ""},
	} {
		if got := string(markdownHTML(c.text, 1)); got != c.want {
			t.Errorf("%q became\n%s\nwant\n%s", c.text, got, c.want)
		}
	}
}

// The deviations keep everything they say.
func TestDeviationsAreInTheReport(t *testing.T) {
	page := parsePage(t, []byte("<div>"+string(markdownHTML(deviations, 1))+"</div>"))
	said := page.text()
	for _, want := range []string{"Emulated hosts share the processor.", "STOMP in place of JMS and OpenWire.", "the paper, 2011", "IBM WebSphere MQ"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(said, "**") || strings.Contains(said, "|--") || strings.Contains(said, "`") {
		t.Error("marks are left")
	}
	if got, want := len(page.all("table")), strings.Count(deviations, "\n|---"); got != want {
		t.Errorf("%d tables of %d", got, want)
	}
}
