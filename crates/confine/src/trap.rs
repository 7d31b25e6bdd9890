// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens at a system call that a filter refuses.
//!
//! The kernel could end the process itself (SECCOMP_RET_KILL_PROCESS). Nobody would then learn which thread made which call. Filters trap
//! instead (SECCOMP_RET_TRAP): the call is not made either, and a handler of SIGSYS runs in the thread. In a worker it reports the
//! thread, its role and the call, and ends the process: a worker that does what no element does may be under a stranger's control.
//! Such a worker could at worst prevent the report; the call stays refused, and the filter lets it change no handler of SIGSYS.
//! Where a thread blocks signals, as the C library does while it starts another thread, the kernel ends the process without a report.
//!
//! In other threads the call fails with EPERM, and the first such call of each kind is reported. A new version of the C library may make calls
//! that the lists do not know, and forwarding must not end for that.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Role, calls, refused};

/// The exit status of a process that a refused call ends: as shells give for SIGSYS.
pub const STATUS: i32 = 128 + libc::SIGSYS;

/// Calls of services that were reported, a bit each.
static REPORTED: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// Reports and answers refused calls from now on.
pub(crate) fn catch() -> Result<(), Error> {
    // SAFETY: zeros are a `sigaction`; the handler below makes only calls that are safe in a signal handler (signal-safety(7)), and
    // has the signature that SA_SIGINFO asks for.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction =
            on_refusal as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut())
    };
    // A file that reaches the limit of its size is an error of the one who writes it, and not the end of the router.
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    match result {
        0 => Ok(()),
        _ => Err(refused("catch SIGSYS")(std::io::Error::last_os_error())),
    }
}

/// The part of `siginfo_t` that SIGSYS has (sigaction(2)).
#[repr(C)]
struct Info {
    signal: i32,
    error: i32,
    code: i32,
    _pad: i32,
    address: usize,
    call: i32,
    architecture: u32,
}

extern "C" fn on_refusal(_: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a `siginfo_t`, which is larger, and for SIGSYS has these fields.
    let call = unsafe { (*info.cast::<Info>()).call };
    let role = calls::role();
    if role == Role::Worker || is_first(call) {
        report(role, call);
    }
    if role == Role::Worker {
        // SAFETY: it takes a number, runs no exit handlers, and does not return.
        unsafe { libc::_exit(STATUS) };
    }
    // SAFETY: the kernel passes the context that the thread goes on with, and nobody else has it.
    unsafe { answer(context.cast(), -i64::from(libc::EPERM)) };
}

fn is_first(call: i32) -> bool {
    let Some(word) = usize::try_from(call / 64).ok().and_then(|word| REPORTED.get(word)) else {
        return false;
    };
    let bit = 1 << (call % 64);
    word.fetch_or(bit, Ordering::Relaxed) & bit == 0
}

/// Gives the thread a result of the call.
///
/// # Safety
/// `context` is that of a signal handler of the calling thread.
unsafe fn answer(context: *mut libc::ucontext_t, result: i64) {
    // SAFETY: by contract.
    let registers = unsafe { &mut (*context).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    {
        registers.gregs[libc::REG_RAX as usize] = result;
    }
    #[cfg(target_arch = "aarch64")]
    {
        registers.regs[0] = result as u64;
    }
}

/// Bytes of a line, without memory of the heap.
struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Line {
    fn add(&mut self, text: &[u8]) {
        let room = &mut self.bytes[self.len..];
        let n = text.len().min(room.len());
        room[..n].copy_from_slice(&text[..n]);
        self.len += n;
    }

    fn number(&mut self, number: i32) {
        let (mut digits, mut at, mut left) = ([0u8; 10], 10, number.unsigned_abs());
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.add(&digits[at..]);
    }
}

/// Writes one line to standard error, without locks.
fn report(role: Role, call: i32) {
    let mut line = Line { bytes: [0; 256], len: 0 };
    let mut name = [0u8; 16];
    // SAFETY: the call writes at most 16 bytes, a zero among them.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let named = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    line.add(b"junctor: confined: the thread ");
    line.add(&name[..named]);
    line.add(b" (");
    line.add(role.name().as_bytes());
    line.add(b") made the system call ");
    match calls::name(call.into()) {
        Some(known) => line.add(known.as_bytes()),
        None => line.number(call),
    }
    line.add(match role {
        Role::Worker => b", which its role does not allow; the router ends\n",
        _ => b", which its role does not allow; it was refused\n",
    });
    // SAFETY: it reads the line, which lives.
    unsafe { libc::write(2, line.bytes.as_ptr().cast(), line.len) };
}
