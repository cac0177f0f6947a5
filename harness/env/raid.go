package env

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// raid says on which RAID a file system is: what makes it, its level, and of
// how many devices.
func (s sections) raid(m mount, blocks []block, top block, found bool) string {
	if level, names := s.btrfsProfile(m), s.btrfsMembers(m); strings.HasPrefix(level, "raid") {
		return fmt.Sprintf("btrfs %s of %d %s", level, len(names), kindOf(blocks, names))
	}
	if m.kind == "zfs" {
		p, _ := s.pool(m)
		return p.level()
	}
	if !found {
		return ""
	}
	all := chain(blocks, top)
	for _, b := range all {
		if strings.HasPrefix(b.level, "raid") {
			text := fmt.Sprintf("md %s of %s devices", b.level, b.disks)
			if b.degraded != "" && b.degraded != "0" {
				text += ", of which " + b.degraded + " missing"
			}
			return text
		}
	}
	for _, b := range all {
		if text := b.hardwareArray(); text != "" {
			return text
		}
	}
	return noRAID
}

// btrfsLine is what the kernel says of a btrfs file system: the profiles of
// its data, and its devices.
func (s sections) btrfsLine(m mount) (profiles, devices []string) {
	if m.kind != "btrfs" {
		return nil, nil
	}
	for line := range strings.Lines(s["btrfs"]) {
		p, d, _ := strings.Cut(strings.TrimSpace(line), "|")
		if names := strings.Fields(d); slices.Contains(names, path.Base(m.source)) {
			return strings.Fields(p), names
		}
	}
	return nil, nil
}

func (s sections) btrfsMembers(m mount) []string {
	_, devices := s.btrfsLine(m)
	return devices
}

func (s sections) btrfsProfile(m mount) string {
	profiles, _ := s.btrfsLine(m)
	if len(profiles) == 0 {
		return ""
	}
	return profiles[0]
}

// kindOf says what some devices are: files, if all of them are loop devices.
func kindOf(blocks []block, names []string) string {
	for _, name := range names {
		if b, ok := findBlock(blocks, "", name); !ok || b.backing == "" {
			return "devices"
		}
	}
	return "files"
}

// controllers are names by which the arrays of RAID controllers show up as
// disks, of vendors and models.
var controllers = regexp.MustCompile(`(?i)\b(PERC|MegaRAID|ServeRAID|MR9\d+\S*|LOGICAL VOLUME|Logical Volume|Adaptec|Areca|3ware|AMCC|SmartArray|RAID\d*)\b`)

// hardwareArray describes an array that a controller shows as one disk, or is
// "" for a disk that is none as far as can be seen. Its members only the
// controller's own tool tells.
func (b block) hardwareArray() string {
	name := strings.TrimSpace(b.vendor + " " + b.model)
	level := b.controller
	if level == "N/A" || strings.EqualFold(level, "JBOD") {
		return "" // a plain disk behind a controller that makes arrays too
	}
	switch {
	case level != "" && !strings.EqualFold(level, "unknown"):
		if !strings.HasPrefix(strings.ToUpper(level), "RAID") {
			level = "RAID " + level
		}
		return strings.TrimSpace("hardware array " + parenthesised(name) + ", " + level)
	case controllers.MatchString(name):
		return "hardware array " + parenthesised(name) + ", of a level that only the controller's own tool tells"
	}
	return ""
}

func parenthesised(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

// pool is what "zpool status" says of a pool: groups of devices.
type pool []poolGroup

// poolGroup is a mirror, a raidz, or a single device, whose kind is then "".
type poolGroup struct {
	kind    string
	devices []string
}

// groupKinds are how zpool names what is made of several devices, with a
// number behind it: mirror-0, raidz2-1, draid1:4d:6c:0s-0.
var groupKinds = regexp.MustCompile(`^(mirror|raidz[123]?|draid[123]?)(:\S*)?-\d+$`)

// pool finds the pool of a zfs file system.
func (s sections) pool(m mount) (pool, bool) {
	if m.kind != "zfs" {
		return nil, false
	}
	name, _, _ := strings.Cut(m.source, "/")
	var p pool
	here, rows := false, false
	for line := range strings.Lines(s["zpool"]) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "pool:":
			here, rows = len(words) == 2 && words[1] == name, false
		case !here:
		case words[0] == name && strings.HasPrefix(line, "\t"+name):
			rows = true
		case rows && !strings.HasPrefix(line, "\t  "): // logs, cache, spares, errors
			rows = false
		case rows && groupKinds.MatchString(words[0]):
			p = append(p, poolGroup{kind: groupKinds.FindStringSubmatch(words[0])[1]})
		case rows && strings.HasPrefix(line, "\t    ") && len(p) > 0:
			p[len(p)-1].devices = append(p[len(p)-1].devices, path.Base(words[0]))
		case rows:
			p = append(p, poolGroup{devices: []string{path.Base(words[0])}})
		}
	}
	return p, len(p) > 0
}

func (p pool) devices() (names []string) {
	for _, g := range p {
		names = append(names, g.devices...)
	}
	return names
}

// level is the level of a pool, in the words of others where there are such.
func (p pool) level() string {
	if len(p) == 0 {
		return "zfs, of a level that \"zpool status\" tells"
	}
	n := len(p.devices())
	for _, g := range p[1:] {
		if g.kind != p[0].kind {
			return fmt.Sprintf("zfs of %d devices in groups of different levels", n)
		}
	}
	switch kind := p[0].kind; {
	case kind == "" && n == 1:
		return noRAID
	case kind == "":
		return fmt.Sprintf("zfs stripes (raid0) over %d devices", n)
	case kind == "mirror" && len(p) == 1:
		return fmt.Sprintf("zfs mirror (raid1) of %d devices", n)
	case kind == "mirror":
		return fmt.Sprintf("zfs stripes over %d mirrors (raid10) of %d devices", len(p), n)
	case len(p) == 1:
		return fmt.Sprintf("zfs %s of %d devices", kind, n)
	default:
		return fmt.Sprintf("zfs stripes over %d groups of %s, of %d devices", len(p), p[0].kind, n)
	}
}
