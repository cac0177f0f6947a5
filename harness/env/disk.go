package env

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// noRAID is what is said, and not refused, of a folder on a plain disk: the
// paper had six disks in RAID 10.
const noRAID = "on no RAID"

// diskFacts is where a folder lies.
type diskFacts struct {
	fileSystem string // type, mount point, options
	device     string // what it is on
	raid       string
	memory     bool // on no disk at all
}

// block is a line of the section "blocks": a block device of the kernel.
type block struct {
	name, number string // number is MAJOR:MINOR
	rotational   string // "1", "0"
	sectors      int64  // of 512 bytes
	model        string
	level        string // of a software RAID (md)
	disks        string // in it
	below        []string
	partitions   map[string]string // name to number
	degraded     string            // disks that the RAID lacks, "0" for none
	vendor       string
	controller   string // level of a controller's array, where its driver tells
	// backing is what holds the file of a loop device, and whether that is read
	// and written past the page cache: "/dev/sda1 1".
	backing string
}

// mount is a line of /proc/self/mountinfo.
type mount struct {
	number, point, kind, source, options string
}

func (s sections) disk() diskFacts {
	m, ok := s.mountOf(s["realdir"])
	if !ok {
		return diskFacts{}
	}
	d := diskFacts{fileSystem: fmt.Sprintf("%s on %s (%s)", m.kind, m.point, m.options)}
	if m.kind == "tmpfs" || m.kind == "ramfs" {
		d.memory = true
		d.device, d.raid = "memory, no disk", noRAID
		return d
	}
	blocks := parseBlocks(s["blocks"])
	// btrfs mounts have a number of no device; then the source is looked for.
	top, found := findBlock(blocks, m.number, path.Base(m.source))
	members := []block{top}
	if names := s.btrfsMembers(m); len(names) > 1 {
		members = members[:0]
		for _, name := range names {
			if b, ok := findBlock(blocks, "", name); ok {
				members = append(members, b)
			}
		}
	}
	if pool, ok := s.pool(m); ok && len(pool.devices()) > 0 {
		d.device = strings.Join(pool.devices(), " + ")
	} else if found {
		d.device = describeBlocks(blocks, members)
	} else {
		d.device = m.source
	}
	d.raid = s.raid(m, blocks, top, found)
	return d
}

// mountOf finds the mount that holds a folder: of those whose point is the
// longest above it, the last one.
func (s sections) mountOf(dir string) (found mount, ok bool) {
	if dir == "" {
		return found, false
	}
	for line := range strings.Lines(s["mounts"]) {
		left, right, cut := strings.Cut(strings.TrimSpace(line), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !cut || len(l) < 6 || len(r) < 2 {
			continue
		}
		m := mount{number: l[2], point: unescape(l[4]), options: l[5], kind: r[0], source: unescape(r[1])}
		if len(r) > 2 {
			m.options = mergeOptions(l[5], r[2])
		}
		above := m.point == "/" || dir == m.point || strings.HasPrefix(dir, m.point+"/")
		if above && len(m.point) >= len(found.point) {
			found, ok = m, true
		}
	}
	return found, ok
}

// mergeOptions joins a mount's and its file system's options, each once.
func mergeOptions(mount, super string) string {
	var out []string
	for _, o := range strings.Split(mount+","+super, ",") {
		if !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return strings.Join(out, ",")
}

// unescape undoes what mountinfo does to blanks: \040.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// blockFields is how many fields a line of the section "blocks" has.
const blockFields = 13

func parseBlocks(text string) []block {
	var out []block
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimRight(line, "\n"), "|")
		if len(f) != blockFields {
			continue
		}
		sectors, _ := strconv.ParseInt(f[3], 10, 64) // 0: not known, and not shown
		b := block{name: f[0], number: f[1], rotational: f[2], sectors: sectors, model: strings.TrimSpace(f[4]),
			level: f[5], disks: f[6], below: strings.Fields(f[7]), partitions: map[string]string{},
			degraded: f[9], vendor: strings.TrimSpace(f[10]), controller: strings.TrimSpace(f[11]), backing: f[12]}
		for _, p := range strings.Fields(f[8]) {
			name, number, _ := strings.Cut(p, "=")
			b.partitions[name] = number
		}
		out = append(out, b)
	}
	return out
}

// findBlock finds the device, or the one whose partition it is, by number or
// else by name.
func findBlock(blocks []block, number, name string) (block, bool) {
	for _, b := range blocks {
		if b.number == number {
			return b, true
		}
		for _, n := range b.partitions {
			if n == number {
				return b, true
			}
		}
	}
	for _, b := range blocks {
		if _, partition := b.partitions[name]; b.name == name || partition {
			return b, true
		}
	}
	return block{}, false
}

// leaves are the real devices below a device that is made of others.
func leaves(blocks []block, b block) []block {
	if len(b.below) == 0 {
		return []block{b}
	}
	var out []block
	for _, name := range b.below {
		if below, ok := findBlock(blocks, "", name); ok && below.name != b.name {
			out = append(out, leaves(blocks, below)...)
		}
	}
	return out
}

// describeBlocks names the real devices below some devices. Those that are
// described alike, as loop devices are, are counted.
func describeBlocks(blocks []block, members []block) string {
	var all []block
	for _, b := range members {
		all = append(all, leaves(blocks, b)...)
	}
	var parts []string
	for _, l := range all {
		parts = append(parts, l.describe(blocks))
	}
	sort.Strings(parts)
	var out []string
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n] == parts[0] {
			n++
		}
		text := parts[0]
		if n > 1 {
			text = fmt.Sprintf("%d × %s", n, text)
		}
		out, parts = append(out, text), parts[n:]
	}
	return strings.Join(out, " + ")
}

// describe names a device. The number of a loop device says nothing.
func (b block) describe(blocks []block) string {
	text := b.name
	var about []string
	if b.model != "" {
		about = append(about, b.model)
	}
	if b.sectors > 0 {
		about = append(about, fmt.Sprintf("%.0f GB", float64(b.sectors)*512/1e9))
	}
	switch source, direct, _ := strings.Cut(b.backing, " "); {
	case source != "":
		text = "file"
		on := path.Base(source)
		if below, ok := findBlock(blocks, "", on); ok {
			on = below.name
		}
		about = append(about, "on "+on)
		if direct != "1" {
			about = append(about, "through the page cache")
		}
	case b.rotational == "0":
		about = append(about, "does not rotate")
	case strings.HasPrefix(b.name, "vd") || strings.HasPrefix(b.name, "xvd"):
		// The kernel's default for a virtual disk says nothing.
		about = append(about, "virtual")
	case b.rotational == "1":
		about = append(about, "rotates")
	}
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	return text
}

// chain is a device and all those below it.
func chain(blocks []block, b block) []block {
	out := []block{b}
	for _, name := range b.below {
		if below, ok := findBlock(blocks, "", name); ok && below.name != b.name {
			out = append(out, chain(blocks, below)...)
		}
	}
	return out
}
