#!/bin/sh
# Installs the system packages that the testbed and its tests need, and starts
# none of them: the testbed starts its own servers. Quick when nothing is
# missing; can be run again at any time. "make setup" calls it. With the argument
# "ssh" it is for a machine from which two other hosts are reached, which needs no
# servers of its own.
set -eu

# package, and the files or programs by which it is known to be there
missing=
need() {
	package=$1
	shift
	for f in "$@"; do
		case $f in
		/*) [ -e "$f" ] && continue ;;
		*) PATH=$PATH:/usr/sbin:/sbin command -v "$f" >/dev/null && continue ;;
		esac
		missing="$missing $package"
		return
	done
}
if [ "${1:-}" = ssh ]; then
	need openssh-client ssh
	need bash bash
else
	need rabbitmq-server /usr/lib/rabbitmq/bin/rabbitmq-server erl epmd
	need activemq /usr/share/java/activemq-run.jar java
	need nats-server nats-server
	need haproxy haproxy # the load balancer before a pipeline
	need iproute2 ip tc
	need openssh-server /usr/sbin/sshd
	need openssh-client ssh ssh-keygen
	need bash bash
	need strace strace # for a test only
	# For tests of Kafka's coordination. The package starts no server.
	need zookeeper /usr/share/java/zookeeper.jar java
	# For tests that take the disk away from a broker.
	need e2fsprogs mkfs.ext4
	need mount mount losetup
	# For "testbed up --raid10" and its tests.
	need btrfs-progs mkfs.btrfs
	need util-linux fallocate findmnt
	# For the tests on Hadoop ("make test-hadoop"), whose jars Maven fetches.
	need maven mvn
	need default-jdk-headless javac
	# For the race detector ("make race").
	need gcc gcc
	need libc6-dev /usr/include/stdlib.h
	# For the test that looks at the report. Ubuntu has it only as a snap, so there
	# it is left to the user.
	if ! command -v google-chrome >/dev/null && ! command -v chromium-browser >/dev/null && grep -qx 'ID=debian' /etc/os-release; then
		need chromium chromium
	fi
fi
missing=${missing# }
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
	cat >&2 <<END
setup: missing on this system: $missing
setup: only Debian and Ubuntu are installed on by this script. Install the packages of
setup: those names, or their like (RabbitMQ 3.10 or newer with Erlang; ActiveMQ 5 with its
setup: STOMP and KahaDB parts under /usr/share/activemq and a Java runtime; a nats-server
setup: of 2.9 or newer on the PATH or in /usr/sbin; haproxy, likewise; ip and tc;
setup: the OpenSSH server, not started; strace; bash; mkfs.ext4, mkfs.btrfs, mount and losetup;
setup: ZooKeeper 3.5 or newer whose /usr/share/java/zookeeper.jar names the jars that it
setup: needs; Maven and a Java compiler of version 17 to 22; a C compiler with the C
setup: library's headers; Chromium or Chrome), and call this again.
END
	exit 1
fi

if [ "$(id -u)" -ne 0 ]; then
	if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
		echo "setup: installing $missing with sudo" >&2
		exec sudo sh "$0" "$@"
	fi
	echo "setup: missing: $missing. Installing needs root rights. Call, as root:" >&2
	echo "  apt-get update && apt-get install --no-install-recommends $missing" >&2
	exit 1
fi

# Packages of servers start them when they are installed, unless this program
# says no (101). One that is there already is kept and put back.
policy=/usr/sbin/policy-rc.d
saved=$policy.kafkalab-saved
mark="# written by the setup of kafkalab, which removes it"
restore() {
	if [ -e "$saved" ] || [ -L "$saved" ]; then
		mv -f "$saved" "$policy"
	elif [ -f "$policy" ] && grep -qxF "$mark" "$policy"; then
		rm -f "$policy"
	fi
}
restore # what an interrupted call left
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [ -e "$policy" ] || [ -L "$policy" ]; then
	mv "$policy" "$saved"
fi
printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
chmod 755 "$policy"

echo "setup: installing $missing" >&2
export DEBIAN_FRONTEND=noninteractive
install() {
	# shellcheck disable=SC2086 # the list is words
	apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 $missing >&2
}
apt-get update -q >&2 || echo "setup: apt-get update failed; trying with the lists that are there" >&2
if ! install; then
	echo "setup: installing $missing failed: see above. On Ubuntu, RabbitMQ, ActiveMQ, NATS and ZooKeeper are in \"universe\" (add-apt-repository universe)." >&2
	exit 1
fi
# Nor are they to start with the machine: who had no server before has none after.
if [ -d /run/systemd/system ]; then
	for p in $missing; do
		case $p in
		rabbitmq-server | activemq | nats-server | haproxy) systemctl disable --quiet "$p.service" 2>&1 || echo "setup: cannot keep $p from starting with the machine: systemctl disable $p" >&2 ;;
		openssh-server) systemctl disable --quiet ssh.service ssh.socket 2>&1 || echo "setup: look whether sshd starts with the machine: systemctl disable ssh" >&2 ;;
		esac
	done
fi
echo "setup: done" >&2
