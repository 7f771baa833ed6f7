package main

import "syscall"

// mostStreams is how many visitors may have a stream open: four of five descriptors
// of this process, so that requests go on, within what one gate is tested with. 0
// leaves it to the gate.
func mostStreams() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	const tested = 16_000
	return int(min(limit.Cur/5*4, tested))
}
