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
// All file systems are mounted in a mount namespace of the test's own, in which
// the test program runs once more (see TestMain). The kernel unmounts them, and
// frees their loop devices, when its last process ends, however it ends; and the
// brokers end when the test does. So nothing can be left behind but temporary
// files.
//
// These tests want root, e2fsprogs and loop devices. Without root they are
// skipped, but fail when CI=true.
package disktest
