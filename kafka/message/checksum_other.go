//go:build !amd64

package message

const fastSum = false

func sumFast(*byte, int) uint32            { panic("message: no fast checksum here") }
func sumCopyFast(_, _ *byte, _ int) uint32 { panic("message: no fast checksum here") }
