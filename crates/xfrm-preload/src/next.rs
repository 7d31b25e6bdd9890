// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions that stand behind ours: those of the C library, or of a library that is preloaded after this one.
//!
//! They may be left by thread cancellation, which unwinds. So they are of the ABI "C-unwind", and no caller has something to be dropped meanwhile.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{epoll_event, msghdr, size_t, sockaddr, socklen_t, ssize_t};

macro_rules! next {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {$(
        /// The C library's function of this name.
        ///
        /// # Safety
        /// As the function's manual says.
        pub unsafe fn $name($($argument: $ty),*) -> $result {
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let mut found = FOUND.load(Ordering::Relaxed);
            if found.is_null() {
                const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name"),
                };
                // SAFETY: the name is a C string, and RTLD_NEXT may be asked at any time.
                found = unsafe { libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr()) };
                if found.is_null() {
                    std::process::abort();
                }
                FOUND.store(found, Ordering::Relaxed);
            }
            // SAFETY: the C library's function of this name has this signature.
            let function = unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($ty),*) -> $result>(found)
            };
            // SAFETY: the caller keeps the function's conditions.
            unsafe { function($($argument),*) }
        }
    )*};
}

next! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int;
    connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int;
    getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr, addr_len: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    recvfrom(fd: c_int, data: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr, addr_len: *mut socklen_t) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t;
    read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t;
    epoll_ctl(watcher: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    close(fd: c_int) -> c_int;
}

/// Finds the functions that signal handlers call, for these may not look for them. The loader calls it before the program begins.
extern "C" fn find_early() {
    // SAFETY: no file has this number, so nothing is read or written.
    unsafe {
        write(-1, std::ptr::null(), 0);
        read(-1, std::ptr::null_mut(), 0);
        close(-1);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static FIND_EARLY: extern "C" fn() = find_early;

/// The number of the last error in this thread.
pub fn errno() -> c_int {
    // SAFETY: the pointer is to a variable of this thread.
    unsafe { *libc::__errno_location() }
}

/// Sets that number, and returns -1.
pub fn fail(errno: c_int) -> c_int {
    // SAFETY: the pointer is to a variable of this thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLE: c_int = 1;

/// As long as this is there, this thread is not cancelled: it must not end while it changes something that others wait for.
pub struct Uncancelled(c_int);

impl Uncancelled {
    pub fn new() -> Uncancelled {
        let mut before = 0;
        // SAFETY: the pointer is to a variable here.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Uncancelled(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the former state is one that the function has returned, and a null pointer is allowed.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}
