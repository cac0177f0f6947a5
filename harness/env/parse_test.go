package env

import (
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	s := split("noise\n" + mark + " one\na\nb\n\n" + mark + " two\n\n" + mark + " three\nc\n")
	if len(s) != 3 || s["one"] != "a\nb" || s["two"] != "" || s["three"] != "c" {
		t.Errorf("got %q", s)
	}
}

const x86 = "processor\t: 0\nmodel name\t: AMD EPYC 7543\ncpu MHz\t\t: 2794.748\nflags\t\t: fpu hypervisor lahf_lm\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 7543\n"

func TestProcessor(t *testing.T) {
	s := sections{"cpuinfo": x86, "governor": "performance", "machine": "x86_64"}
	if s.processor() != "AMD EPYC 7543" || s.cores() != "2" || s.clock() != "2795 MHz, governor performance" {
		t.Errorf("%q, %q, %q", s.processor(), s.cores(), s.clock())
	}
	arm := sections{"cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "machine": "aarch64"}
	if arm.processor() != "aarch64, implementer 0x41, part 0xd0c" || arm.cores() != "1" || arm.clock() != "" {
		t.Errorf("%q, %q, %q", arm.processor(), arm.cores(), arm.clock())
	}
}

func TestMemoryAndSwap(t *testing.T) {
	s := sections{"meminfo": "MemTotal:       24683652 kB\nMemFree: 1 kB\n", "swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 1048576 0 -2\n/swap file 1048576 0 -3"}
	if s.memory() != "23.5 GiB" || s.swap() != "2.0 GiB" {
		t.Errorf("%q, %q", s.memory(), s.swap())
	}
	none := sections{"swaps": "Filename Type Size Used Priority"}
	if none.memory() != "" || none.swap() != "none" {
		t.Errorf("%q, %q", none.memory(), none.swap())
	}
}

func TestVirtualisation(t *testing.T) {
	for want, s := range map[string]sections{
		"kvm (QEMU Standard PC)":           {"virt": "kvm", "vendor": "QEMU\nStandard PC"},
		"docker":                           {"virt": "docker"},
		"none (Dell Inc. PowerEdge)":       {"virt": "none", "vendor": "Dell Inc.\nPowerEdge"},
		"none":                             {"virt": "none"},
		"a virtual machine":                {"cpuinfo": x86},
		"a virtual machine (Xen HVM domU)": {"cpuinfo": x86, "vendor": "Xen\nHVM domU"},
		"":                                 {},
	} {
		if got := s.virtualisation(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestVersions(t *testing.T) {
	s := sections{
		"packages": "rabbitmq-server 3.10.8-1.1 installed\nactivemq 5.17.2 config-files\nnats-server 2.9.10-1+b3 installed",
		"java":     "openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime",
		"ssh":      "OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19",
	}
	want := map[string]string{"RabbitMQ": "3.10.8-1.1", "ActiveMQ": "not installed", "NATS": "2.9.10-1+b3", "Java": "17.0.15", "Erlang": "not installed", "ssh": "OpenSSH_9.2p1 Debian-2+deb12u10"}
	for _, f := range s.facts() {
		if w, ok := want[f.Name]; ok && f.Value != w {
			t.Errorf("%s is %q, want %q", f.Name, f.Value, w)
		}
	}
}

const (
	rootMount  = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"
	blocksText = "sda|8:0|0|1000215216|Samsung SSD|||| sda1=8:1 sda2=8:2||ATA||\n" +
		"sdb|8:16|1|11721045168|WDC|||| sdb1=8:17||||\nsdc|8:32|1|11721045168|WDC||||||||\n" +
		"md0|9:0|1|23442090336||raid10|2|sdb1 sdc||1|||\n" +
		"dm-0|253:0|1|1000||||md0|||||\n" +
		"vda|254:0|1|1000000||||| vda1=254:1||||\n" +
		"sdd|8:48|1|1000000000|PERC H740P Mini||||||DELL||\n" +
		"sde|8:64|1|1000000000|LOGICAL VOLUME||||||HP|RAID 1(+0)|\n" +
		"sdf|8:80|1|1000000000|MB4000||||||HP|N/A|\n" +
		"loop0|7:0|0|12582912|||||||||/dev/vda1 1\nloop1|7:1|0|12582912|||||||||/dev/vda1 1\nloop2|7:2|0|12582912|||||||||/dev/vda1 0\n"
	zpoolText = `pool: fast
 state: ONLINE
config:

	NAME        STATE     READ WRITE CKSUM
	fast        ONLINE       0     0     0
	  mirror-0  ONLINE       0     0     0
	    sda     ONLINE       0     0     0
	    sdb     ONLINE       0     0     0
	  mirror-1  ONLINE       0     0     0
	    sdc     ONLINE       0     0     0
	    sdd     ONLINE       0     0     0
	logs
	  nvme0n1   ONLINE       0     0     0

errors: No known data errors

  pool: slow
 state: ONLINE
config:

	NAME        STATE     READ WRITE CKSUM
	slow        ONLINE       0     0     0
	  raidz2-0  ONLINE       0     0     0
	    sdf     ONLINE       0     0     0
	    sdg     ONLINE       0     0     0
	    sdh     ONLINE       0     0     0
	    sdi     ONLINE       0     0     0

  pool: one
config:
	NAME        STATE     READ WRITE CKSUM
	one         ONLINE       0     0     0
	  sdz       ONLINE       0     0     0
`
)

func TestDisk(t *testing.T) {
	for _, c := range []struct {
		name, dir, mounts, btrfs string
		fileSystem, device, raid string
		memory                   bool
	}{
		{name: "partition", dir: "/var/tmp/x", mounts: rootMount,
			fileSystem: "ext4 on / (rw,relatime,errors=remount-ro)", device: "sda (Samsung SSD, 512 GB, does not rotate)", raid: noRAID},
		{name: "md below lvm", dir: "/data/x", mounts: rootMount + "40 22 253:0 / /data rw,noatime - xfs /dev/mapper/vg-data rw\n",
			fileSystem: "xfs on /data (rw,noatime)", device: "sdb (WDC, 6001 GB, rotates) + sdc (WDC, 6001 GB, rotates)", raid: "md raid10 of 2 devices, of which 1 missing"},
		{name: "a folder beside the mount", dir: "/database", mounts: rootMount + "40 22 9:0 / /data rw - xfs /dev/md0 rw\n",
			fileSystem: "ext4 on / (rw,relatime,errors=remount-ro)", device: "sda (Samsung SSD, 512 GB, does not rotate)", raid: noRAID},
		{name: "btrfs", dir: "/mnt/b", mounts: rootMount + "41 22 0:50 / /mnt/b rw - btrfs /dev/sdb1 rw,space_cache\n", btrfs: "single |sda2\nraid10 |sdb1 sdc sdd sde\n",
			fileSystem: "btrfs on /mnt/b (rw,space_cache)", device: "sdb (WDC, 6001 GB, rotates) + sdc (WDC, 6001 GB, rotates) + sdd (PERC H740P Mini, 512 GB, rotates) + sde (LOGICAL VOLUME, 512 GB, rotates)", raid: "btrfs raid10 of 4 devices"},
		{name: "btrfs on files", dir: "/mnt/b", mounts: "41 22 0:50 / /mnt/b rw - btrfs /dev/loop0 rw\n", btrfs: "raid10 |loop0 loop1 loop2\n",
			fileSystem: "btrfs on /mnt/b (rw)", device: "2 × file (6 GB, on vda) + file (6 GB, on vda, through the page cache)", raid: "btrfs raid10 of 3 files"},
		{name: "a controller of a known name", dir: "/x", mounts: "22 1 8:48 / / rw - ext4 /dev/sdd rw\n",
			fileSystem: "ext4 on / (rw)", device: "sdd (PERC H740P Mini, 512 GB, rotates)", raid: "hardware array (DELL PERC H740P Mini), of a level that only the controller's own tool tells"},
		{name: "a controller that tells the level", dir: "/x", mounts: "22 1 8:64 / / rw - ext4 /dev/sde rw\n",
			fileSystem: "ext4 on / (rw)", device: "sde (LOGICAL VOLUME, 512 GB, rotates)", raid: "hardware array (HP LOGICAL VOLUME), RAID 1(+0)"},
		{name: "a plain disk at such a controller", dir: "/x", mounts: "22 1 8:80 / / rw - ext4 /dev/sdf rw\n",
			fileSystem: "ext4 on / (rw)", device: "sdf (MB4000, 512 GB, rotates)", raid: noRAID},
		{name: "zfs mirrors", dir: "/z/x", mounts: "22 1 0:60 / /z rw - zfs fast/data rw\n",
			fileSystem: "zfs on /z (rw)", device: "sda + sdb + sdc + sdd", raid: "zfs stripes over 2 mirrors (raid10) of 4 devices"},
		{name: "zfs raidz", dir: "/z/x", mounts: "22 1 0:60 / /z rw - zfs slow rw\n",
			fileSystem: "zfs on /z (rw)", device: "sdf + sdg + sdh + sdi", raid: "zfs raidz2 of 4 devices"},
		{name: "zfs on one", dir: "/z/x", mounts: "22 1 0:60 / /z rw - zfs one rw\n", fileSystem: "zfs on /z (rw)", device: "sdz", raid: noRAID},
		{name: "zfs that says nothing", dir: "/z/x", mounts: "22 1 0:60 / /z rw - zfs gone rw\n",
			fileSystem: "zfs on /z (rw)", device: "gone", raid: "zfs, of a level that \"zpool status\" tells"},
		{name: "btrfs on one", dir: "/mnt/b", mounts: "41 22 0:50 / /mnt/b rw - btrfs /dev/sda2 rw\n", btrfs: "single |sda2\n",
			fileSystem: "btrfs on /mnt/b (rw)", device: "sda (Samsung SSD, 512 GB, does not rotate)", raid: noRAID},
		{name: "virtual disk", dir: "/x", mounts: "22 1 254:1 / / rw - ext4 /dev/root rw\n",
			fileSystem: "ext4 on / (rw)", device: "vda (1 GB, virtual)", raid: noRAID},
		{name: "memory", dir: "/tmp/x", mounts: rootMount + "30 22 0:30 / /tmp rw - tmpfs tmpfs rw,size=1g\n",
			fileSystem: "tmpfs on /tmp (rw,size=1g)", device: "memory, no disk", raid: noRAID, memory: true},
		{name: "network", dir: "/net/x", mounts: rootMount + "30 22 0:31 / /net rw - nfs4 server:/x rw\n",
			fileSystem: "nfs4 on /net (rw)", device: "server:/x", raid: ""},
		{name: "mounted twice, with a blank", dir: "/my disk/x", mounts: `30 22 8:1 / /my\040disk rw - ext4 /dev/sda1 rw` + "\n" + `31 22 8:17 / /my\040disk rw - xfs /dev/sdb1 rw` + "\n",
			fileSystem: "xfs on /my disk (rw)", device: "sdb (WDC, 6001 GB, rotates)", raid: noRAID},
		{name: "nothing known", dir: "", mounts: rootMount},
		{name: "damaged", dir: "/x", mounts: "22 1 8:1\n - \nx - y\n"},
	} {
		d := sections{"realdir": c.dir, "mounts": c.mounts, "blocks": blocksText, "btrfs": c.btrfs, "zpool": zpoolText}.disk()
		if want := (diskFacts{c.fileSystem, c.device, c.raid, c.memory}); d != want {
			t.Errorf("%s: got %+v, want %+v", c.name, d, want)
		}
	}
}

// A device that claims to be made of itself does not send us round for ever.
func TestDiskLoop(t *testing.T) {
	blocks := parseBlocks("md0|9:0|1|8||raid1|1|md0|||||\n")
	if got := leaves(blocks, blocks[0]); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if got := chain(blocks, blocks[0]); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestNetwork(t *testing.T) {
	veth := sections{"device": "kl-broker", "speed": "10000",
		"link":  "2: kl-broker@if2: <UP> mtu 1500 qdisc tbf\n    link/ether aa\n    veth addrgenmode eui64 gso_max_size 65536 gso_max_segs 65535",
		"qdisc": "qdisc tbf 8001: root refcnt 3 rate 984Mbit burst 130995b lat 20ms \n"}
	if veth.device() != "kl-broker (veth)" || veth.queue() != "tbf rate 984Mbit burst 130995b lat 20ms" || !strings.Contains(veth.offloads(), "65536") {
		t.Errorf("%q, %q, %q", veth.device(), veth.queue(), veth.offloads())
	}
	card := sections{"device": "eth0", "speed": "1000", "link": "2: eth0: <UP> mtu 1500\n    link/ether aa\n    altname enp1s0",
		"qdisc":    "qdisc mq 0: root\nqdisc fq_codel 0: parent :1 limit 10240p",
		"offloads": "Features for eth0:\nrx-checksumming: on\ntx-checksumming: on\ntcp-segmentation-offload: on\ngeneric-receive-offload: off [fixed]"}
	if card.device() != "eth0, 1000 Mb/s" || card.queue() != "mq" || card.offloads() != "tso on, gro off, tx checksum on, rx checksum on" {
		t.Errorf("%q, %q, %q", card.device(), card.queue(), card.offloads())
	}
	if none := (sections{"speed": "-1"}); none.device() != "" || none.queue() != "" || none.offloads() != "" {
		t.Errorf("%q, %q, %q", none.device(), none.queue(), none.offloads())
	}
}

func TestNeedBytes(t *testing.T) {
	if got := NeedBytes(10_000_000); got < 12e9 || got > 14e9 {
		t.Errorf("10 million messages need %d bytes", got)
	}
}
