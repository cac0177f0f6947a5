package paper

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// browser is a headless browser, which has the report to show.
type browser struct{ path string }

// findBrowser finds Chromium ("make setup" installs it). Without one the test
// fails where CI=true, and is skipped elsewhere.
func findBrowser(t *testing.T) browser {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return browser{path}
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("none of %s is installed: make setup", strings.Join(names, ", "))
	}
	t.Skipf("none of %s is installed: make setup", strings.Join(names, ", "))
	return browser{}
}

// open opens an address, and returns the page as it then is and what was
// written to its console, a line each.
func (b browser) open(t *testing.T, url string, flags ...string) (dom string, console []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	args := append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--user-data-dir=" + t.TempDir(), "--enable-logging=stderr", "--dump-dom"}, flags...)
	cmd := exec.CommandContext(ctx, b.path, append(args, url)...)
	// Its children end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", b.path, err, &errs)
	}
	for line := range strings.Lines(errs.String()) {
		if strings.Contains(line, "CONSOLE") {
			console = append(console, strings.TrimSpace(line))
		}
	}
	return out.String(), console
}

// probe shows the report as wide as a phone and as a screen, and as it is
// printed, and tells what it measures there. The report itself has no script.
const probe = `<!DOCTYPE html><title>probe</title>
<iframe src="report.html" style="width:390px;height:844px"></iframe>
<iframe src="report.html" style="width:1280px;height:900px"></iframe>
<iframe src="report.html" style="width:718px;height:1000px" class="print"></iframe>
<pre id="result"></pre>
<script>
window.onload = () => {
  const out = [...document.querySelectorAll("iframe")].map(f => {
    const d = f.contentDocument;
    if (f.className == "print") // shown as it is printed on A4
      for (const sheet of d.styleSheets) for (const rule of sheet.cssRules) if (rule.media) rule.media.mediaText = rule.media.mediaText == "print" ? "all" : "not all";
    const box = e => { const r = e.getBoundingClientRect(); return {id: e.closest("figure").id, width: r.width, height: r.height}; };
    return {
      width: d.documentElement.clientWidth, needs: d.documentElement.scrollWidth,
      figures: [...d.querySelectorAll("figure svg")].map(box),
      labels: [...d.querySelectorAll("figure figcaption .label")].map(e => e.getBoundingClientRect().width),
      background: getComputedStyle(d.body).backgroundColor,
      wide: [...d.querySelectorAll("table")].filter(e => e.getBoundingClientRect().width > d.documentElement.clientWidth + 1).map(e => (e.className + ": " + e.textContent).trim().substring(0, 200)),
      hidden: [...d.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1 && e.querySelector("table")).map(e => e.textContent.trim().substring(0, 200)),
      unsaid: [...d.querySelectorAll("*")].filter(e => e.scrollWidth > e.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(e).overflowX) && f.className != "print" && !getComputedStyle(e).backgroundAttachment.includes("local")).map(e => e.textContent.trim().substring(0, 200)),
      letters: Math.min(...[...d.querySelectorAll("th, td")].map(e => parseFloat(getComputedStyle(e).fontSize))),
      cut: [...d.querySelectorAll("figure svg text")].filter(e => e.getBoundingClientRect().right > e.closest("svg").getBoundingClientRect().right + 1).map(e => e.textContent),
    };
  });
  document.getElementById("result").textContent = JSON.stringify(out);
};
</script>`

type measured struct {
	Width, Needs float64
	Figures      []struct {
		ID            string
		Width, Height float64
	}
	Labels     []float64
	Background string
	Wide       []string // tables that are wider than the page
	Hidden     []string // tables that must be scrolled to be seen whole
	Unsaid     []string // what must be scrolled and has no shadow that shows it
	Letters    float64  // of the smallest in tables, pixels
	Cut        []string
}

var probed = regexp.MustCompile(`(?s)<pre id="result">(.*?)</pre>`)

// TestReportInABrowser: no message on the console, every figure is there to be
// seen, the page is not wider than a phone, a screen or a printed page, what must
// be scrolled says so, and printed tables can be read, in light and in dark.
func TestReportInABrowser(t *testing.T) {
	b := findBrowser(t)
	dir := t.TempDir()
	report := everyPart(t, dir)
	if _, err := report.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "probe.html"), []byte(probe), 0o644); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	wanted, emulated := 0, 0
	for _, p := range report.Runs {
		for _, s := range p.Sections {
			emulated += len(s.Figures)
		}
	}
	wanted = emulated
	for _, d := range report.Drawn {
		wanted += len(d.Drawings)
	}
	for _, c := range []struct {
		name, background string
		flags            []string
	}{
		{"light", "rgb(255, 255, 255)", []string{"--blink-settings=preferredColorScheme=1"}},
		{"dark", "rgb(13, 17, 23)", []string{"--blink-settings=preferredColorScheme=0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dom, console := b.open(t, server.URL+"/probe.html", c.flags...)
			if len(console) > 0 {
				t.Errorf("console: %q", console)
			}
			found := probed.FindStringSubmatch(dom)
			var views []measured
			if found == nil || json.Unmarshal([]byte(html.UnescapeString(found[1])), &views) != nil || len(views) != 3 {
				t.Fatalf("nothing was measured:\n%s", dom)
			}
			if wide := views[2].Wide; len(wide) > 0 {
				t.Errorf("tables do not fit a printed page: %q", wide)
			}
			if hidden := views[1].Hidden; len(hidden) > 0 {
				t.Errorf("tables do not fit a screen of 1280 pixels: %q", hidden)
			}
			const sevenPoints = 7 * 96 / 72.0
			if letters := views[2].Letters; letters < sevenPoints-0.01 {
				t.Errorf("letters of printed tables are %v pixels high, want %v", letters, sevenPoints)
			}
			for i, v := range views {
				checkView(t, v, wanted, emulated)
				if i < 2 && v.Background != c.background {
					t.Errorf("the background is %s, want %s", v.Background, c.background)
				}
			}
		})
	}
}

func checkView(t *testing.T, v measured, figures, labels int) {
	t.Helper()
	if v.Needs > v.Width {
		t.Errorf("at %v pixels the page needs %v", v.Width, v.Needs)
	}
	if len(v.Figures) != figures || len(v.Labels) != labels {
		t.Errorf("at %v pixels there are %d figures and %d labels, want %d and %d", v.Width, len(v.Figures), len(v.Labels), figures, labels)
	}
	for _, f := range v.Figures {
		if f.Width < 300 || f.Height < 100 {
			t.Errorf("at %v pixels figure %s is %v by %v", v.Width, f.ID, f.Width, f.Height)
		}
	}
	for _, width := range v.Labels {
		if width < 10 {
			t.Errorf("at %v pixels a label is %v wide", v.Width, width)
		}
	}
	if len(v.Unsaid) > 0 {
		t.Errorf("at %v pixels nothing says that there is more at the side: %q", v.Width, v.Unsaid)
	}
	if len(v.Cut) > 0 {
		t.Errorf("at %v pixels words of figures are cut off: %q", v.Width, v.Cut)
	}
}

// The report opens as a file, too, without a message; and a message would be
// seen.
func TestReportOpensAsAFile(t *testing.T) {
	b := findBrowser(t)
	dir := t.TempDir()
	if _, err := makeReport(t, small("one").write(t, dir)).Write(dir); err != nil {
		t.Fatal(err)
	}
	dom, console := b.open(t, "file://"+filepath.Join(dir, HTMLName))
	if len(console) > 0 || !strings.Contains(dom, "What one run measured") {
		t.Errorf("console %q, page of %d bytes", console, len(dom))
	}
	loud := filepath.Join(dir, "loud.html")
	if err := os.WriteFile(loud, []byte(`<script>nothing.here()</script><img src="missing.png">`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, console := b.open(t, "file://"+loud); len(console) == 0 {
		t.Error("a page with a broken script is silent: errors of the report would not be seen")
	}
}
