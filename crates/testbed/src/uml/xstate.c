// SPDX-License-Identifier: MIT OR Apache-2.0
// Loaded before the C library of linux.uml. Linux takes the extended registers of a process only whole (PTRACE_SETREGSET, NT_X86_XSTATE), and on processors
// with AMX they are longer than User Mode Linux 6.1 knows: its first process would die by "ptrace set fp regs failed, errno = 14". So what it
// sets is completed with what the process has.
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PEEK_FIRST = 1, PEEK_LAST = 3, GET_REGSET = 0x4204, SET_REGSET = 0x4205, XSTATE = 0x202 };

long ptrace(long request, ...) {
    va_list arguments;
    va_start(arguments, request);
    long pid = va_arg(arguments, long), address = va_arg(arguments, long), data = va_arg(arguments, long);
    va_end(arguments);
    if (request == SET_REGSET && address == XSTATE) {
        static __thread char all[65536];
        struct iovec *part = (struct iovec *)data, whole = {all, sizeof all};
        if (syscall(SYS_ptrace, GET_REGSET, pid, address, &whole) == 0 && part->iov_len < whole.iov_len) {
            memcpy(all, part->iov_base, part->iov_len);
            return syscall(SYS_ptrace, request, pid, address, &whole);
        }
    }
    // The C library's function returns what was read; the system call stores it.
    long word;
    int peeks = PEEK_FIRST <= request && request <= PEEK_LAST;
    long result = syscall(SYS_ptrace, request, pid, address, peeks ? (long)&word : data);
    return peeks && result == 0 ? word : result;
}
