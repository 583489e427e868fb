package job

import (
	"syscall"
	"unsafe"
)

const (
	createSuspended   = 0x4
	killOnClose       = 0x2000 // JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	accountingClass   = 1      // JobObjectBasicAccountingInformation
	extendedLimitInfo = 9      // JobObjectExtendedLimitInformation
)

var (
	kernel32       = syscall.NewLazyDLL("kernel32.dll")
	createJob      = kernel32.NewProc("CreateJobObjectW")
	assignProcess  = kernel32.NewProc("AssignProcessToJobObject")
	setInformation = kernel32.NewProc("SetInformationJobObject")
	queryJob       = kernel32.NewProc("QueryInformationJobObject")
	terminateJob   = kernel32.NewProc("TerminateJobObject")
	resumeProcess  = syscall.NewLazyDLL("ntdll.dll").NewProc("NtResumeProcess")
)

// object is a job object. The kernel keeps track of all processes that are started in it. Only this
// process has a handle of the job object. When that handle is closed, the kernel ends the
// processes.
type object struct{ handle syscall.Handle }

// limits is JOBOBJECT_EXTENDED_LIMIT_INFORMATION.
type limits struct {
	perProcessTime, perJobTime int64
	flags                      uint32
	minWorkingSet, maxWorking  uintptr
	activeProcesses            uint32
	affinity                   uintptr
	priority, scheduling       uint32
	io                         [6]uint64
	memory                     [4]uintptr
}

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type accounting struct {
	times                             [4]int64
	faults, total, active, terminated uint32
}

func newObject() (*object, error) {
	h, _, err := createJob.Call(0, 0)
	if h == 0 {
		return nil, err
	}
	o := &object{syscall.Handle(h)}
	if err := o.limit(killOnClose); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *object) limit(flags uint32) error {
	l := limits{flags: flags}
	ok, _, err := setInformation.Call(uintptr(o.handle), extendedLimitInfo, uintptr(unsafe.Pointer(&l)), unsafe.Sizeof(l))
	if ok == 0 {
		return err
	}
	return nil
}

// addAndResume adds a suspended process to the job object. Then it resumes the process.
func (o *object) addAndResume(process syscall.Handle) error {
	if ok, _, err := assignProcess.Call(uintptr(o.handle), uintptr(process)); ok == 0 {
		return err
	}
	if status, _, _ := resumeProcess.Call(uintptr(process)); status != 0 {
		return syscall.EINVAL
	}
	return nil
}

// active returns the number of processes that are left.
func (o *object) active() int {
	var a accounting
	ok, _, _ := queryJob.Call(uintptr(o.handle), accountingClass, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a), 0)
	if ok == 0 {
		return 0
	}
	return int(a.active)
}

func (o *object) terminate() { _, _, _ = terminateJob.Call(uintptr(o.handle), 1) }

// letGo makes the remaining processes survive the end of this process.
func (o *object) letGo() { _ = o.limit(0) }

func (o *object) close() { _ = syscall.CloseHandle(o.handle) }
