//go:build !linux

package filestore

// readKernel does nothing, because there is no portable way to learn these facts about the kernel.
// So on this system, cool-downs follow the wall clock, and the store does not know which process
// holds a lock.
func (*machineInfo) readKernel() {}

func bootNow() int64 { return 0 }

func findProcess(int, uint64) processState { return processUnknown }
