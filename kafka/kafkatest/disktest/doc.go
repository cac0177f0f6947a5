// Package disktest holds tests, and nothing else, of what a broker does when the
// disk under it is lost, full or out of reach: a loss of power, a file system
// without room, a process without file descriptors. They use real file systems:
// ext4 on a file, through a loop device.
//
// # Power
//
// Killing a process leaves the page cache, so everything that it wrote survives
// and nothing is learned about its flushes. Here the file system is told to shut
// down without writing its journal (the ioctl EXT4_IOC_SHUTDOWN), which drops
// what was not synced: data, sizes, names. Then it is mounted again, as after a
// restart of the machine. What a disk with a cache of its own may lose beyond
// that, if it lies about flushes, is not shown.
//
// # Cleaning up
//
// The test program runs once more (see TestMain), in namespaces of its own for
// mounts and for processes. When that process ends, however it does, the kernel
// kills the brokers with it, unmounts the file systems and frees their loop
// devices. So nothing can be left behind but temporary files.
//
// These tests want root, e2fsprogs and loop devices. Without root they are
// skipped, but fail when CI=true.
package disktest
