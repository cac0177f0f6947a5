package env

import (
	"context"
	"fmt"
	"strings"

	"kafkalab/harness/host"
)

// collectScript prints sections, each below a line that begins with mark. $1 is
// the mark, $2 the folder on the disk to be measured, $3 the address on the
// test network. What a system does not have makes an empty section.
const collectScript = `
mark=$1 dir=$2 addr=$3
PATH=$PATH:/usr/sbin:/sbin LC_ALL=C
export PATH LC_ALL
exec 2>/dev/null
s() { printf '\n%s %s\n' "$mark" "$1"; }
s uname; uname -sr
s machine; uname -m
s os; cat /etc/os-release
s cpuinfo; cat /proc/cpuinfo
s governor; cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
s meminfo; cat /proc/meminfo
s swaps; cat /proc/swaps
s virt; systemd-detect-virt
s vendor; cat /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name
s mounts; cat /proc/self/mountinfo
s realdir; cd -P -- "$dir" && pwd -P; cd /
s blocks
for d in /sys/block/*; do
  n=${d##*/}
  r=$(cat "$d/queue/rotational"); m=$(cat "$d/device/model"); z=$(cat "$d/size")
  l=$(cat "$d/md/level"); k=$(cat "$d/md/raid_disks")
  v=$(cd "$d/slaves" && echo *); [ "$v" != '*' ] || v=
  p=; for q in "$d/$n"*; do [ ! -e "$q/partition" ] || p="$p ${q##*/}=$(cat "$q/dev")"; done
  g=$(cat "$d/md/degraded")
  w=$(cat "$d/device/vendor"); a=$(cat "$d/device/raid_level" "$d"/device/raid_devices/*/level)
  b=; f=$(cat "$d/loop/backing_file")
  [ -z "$f" ] || b="$(df -P -- "$f" | awk 'NR == 2 {print $1}') $(cat "$d/loop/dio")"
  printf '%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s\n' "$n" "$(cat "$d/dev")" "$r" "$z" "$m" "$l" "$k" "$v" "$p" "$g" "$w" "$a" "$b"
done
s btrfs
for d in /sys/fs/btrfs/*-*; do
  [ -d "$d" ] || continue
  for a in "$d"/allocation/data/*; do [ ! -d "$a" ] || printf '%s ' "${a##*/}"; done
  echo "|$(cd "$d/devices" && echo *)"
done
s zpool; zpool status -L
dev=$(ip -o addr show to "$addr" | awk '{print $2; exit}'); dev=${dev%%@*}
s device; echo "$dev"
s link; [ -z "$dev" ] || ip -details link show dev "$dev"
s speed; [ -z "$dev" ] || cat "/sys/class/net/$dev/speed"
s qdisc; [ -z "$dev" ] || tc qdisc show dev "$dev"
s offloads; [ -z "$dev" ] || ethtool -k "$dev"
s congestion; cat /proc/sys/net/ipv4/tcp_congestion_control
s packages; for p in rabbitmq-server activemq nats-server erlang-base openssh-server iproute2; do dpkg-query -W -f='${Package} ${Version} ${db:Status-Status}\n' "$p"; done
s erlang; cat /usr/lib/erlang/releases/*/OTP_VERSION
s java; java -version 2>&1
s ssh; ssh -V 2>&1
s end
`

const mark = "==kafkalab=="

// sections is the raw text of each section.
type sections map[string]string

// collect asks a host everything.
func collect(ctx context.Context, h host.Host) (sections, error) {
	out, err := h.Run(ctx, "/bin/sh", "-c", collectScript, "describe", mark, h.Dir(), h.Addr())
	if err != nil {
		return nil, fmt.Errorf("describing %s: %w", h.Name(), err)
	}
	s := split(string(out))
	if _, whole := s["end"]; !whole {
		return nil, fmt.Errorf("describing %s: the answer is cut off", h.Name())
	}
	return s, nil
}

// split takes the answer apart.
func split(text string) sections {
	s := sections{}
	for _, part := range strings.Split("\n"+text, "\n"+mark+" ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		s[name] = strings.TrimSpace(body)
	}
	return s
}
