package host

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// NeedsRoot stands in the note of limits whose memory is not held for want of
// root.
const NeedsRoot = "needs root"

// makeGroupScript makes a control group of the name $2 that holds $3 bytes, and
// says its version and folder, or why there is none. It is entered with the
// guard, in the folder $1, before it is made; whoever finds after that that the
// guard has gone takes it away again.
//
// A group of version 1 is made below that of this shell, so that what holds the
// shell holds it too; in version 2 a group with processes can have none below
// it, and it is made at the top.
const makeGroupScript = `
no() { echo "no $1"; exit 0; }
one= two=
while read -r source at kind options rest; do
  case $kind in
  cgroup2) case " $(cat "$at/cgroup.controllers" 2>/dev/null) " in *' memory '*) two=$at;; esac;;
  cgroup) case ",$options," in *,memory,*) one=$at;; esac;;
  esac
done < /proc/mounts
[ -n "$one$two" ] || no "the kernel offers no control groups with memory"
[ "$(id -u)" = 0 ] || no "` + NeedsRoot + `"
if [ -n "$two" ]; then
  version=2 g=$two/$2 limit=memory.max swap=memory.swap.max swapbytes=0
  case " $(cat "$two/cgroup.subtree_control") " in *' memory '*) ;;
  *) echo +memory 2>/dev/null > "$two/cgroup.subtree_control" || no "the memory controller of $two cannot be switched on";;
  esac
else
  own=$(sed -n 's/^[0-9]*:\([^:]*,\)*memory\(,[^:]*\)*://p' /proc/self/cgroup)
  [ -d "$one$own" ] || own=
  version=1 g=${one}${own%/}/$2 limit=memory.limit_in_bytes swap=memory.memsw.limit_in_bytes swapbytes=$3
fi
echo "$g" 2>/dev/null > "$1/$2" || { echo "the guard has gone" >&2; exit 1; }
made=; mkdir "$g" 2>/dev/null && made=1
if [ -z "$made" ]; then rm -f -- "$1/$2"; no "$g could not be made"; fi
if ! [ -e "$1/$2" ]; then rmdir "$g"; echo "the guard has gone" >&2; exit 1; fi
if ! echo "$3" 2>/dev/null > "$g/$limit"; then rmdir "$g"; rm -f -- "$1/$2"; no "$g/$limit could not be set"; fi
[ ! -e "$g/$swap" ] || echo "$swapbytes" 2>/dev/null > "$g/$swap" || :
echo "$version $g"`

// groups is the guard's folder of control groups.
func (m *machine) groups() string { return m.guard.runDir + "/" + groupsFolder }

func (c *Confined) makeGroup(ctx context.Context) error {
	name := fmt.Sprintf("kafkalab-%s-%d", path.Base(c.m.guard.runDir), confinements.Add(1))
	out, err := c.m.reach.shell(ctx, makeGroupScript, c.m.groups(), name, strconv.FormatInt(c.held.MemoryBytes, 10))
	if err != nil {
		return err
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	switch word {
	case "1", "2":
		c.version, _ = strconv.Atoi(word)
		c.group = rest
		return nil
	case "no":
		c.held.MemoryBytes = 0
		c.note = rest
		return nil
	}
	return fmt.Errorf("making a control group: unexpected output %q", out)
}

// Release ends what is left in the control group and removes it. It is
// idempotent, and bounded by a few seconds also when ctx has ended.
func (c *Confined) Release(ctx context.Context) error {
	c.releaseOnce.Do(func() {
		if c.group == "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
		defer cancel()
		_, err := c.m.reach.shell(ctx, removeGroups+`for f in "$1"; do remove_group; done; [ ! -e "$1" ]`, path.Join(c.m.groups(), path.Base(c.group)))
		if err != nil {
			c.releaseErr = fmt.Errorf("removing the control group %s on %s: %w", c.group, c.Name(), err)
		}
	})
	return c.releaseErr
}

const releaseLimit = 8 * time.Second

// groupsFolder is where a guard keeps the control groups: a file for each, with
// its folder in it.
const groupsFolder = "groups"

// removeGroups defines what takes away the control group that the file $f
// names: it ends every process in it, and tries again until they are reaped.
const removeGroups = `
remove_group() {
  read -r g < "$f" || return 0
  n=0
  while [ -d "$g" ] && [ $n -lt 100 ]; do
    while read -r p; do kill -s KILL "$p" 2>/dev/null; done < "$g/cgroup.procs"
    rmdir "$g" 2>/dev/null && break
    n=$((n+1)); sleep 0.05
  done
  [ -d "$g" ] || rm -f -- "$f"
}
`
