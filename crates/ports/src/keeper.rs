// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors that outlive this process: somebody else holds them, and a process that takes this one's place gets them back. An
//! interface that lives by its descriptor, as a tap does, so keeps its carrier, addresses and neighbours meanwhile.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::Arc;

use crate::sys;

/// Who holds descriptors for the next process.
pub trait Keeper: Send + Sync {
    /// The descriptor of this name that an earlier process left, once.
    fn take(&self, name: &str) -> Option<OwnedFd>;
    /// Holds a descriptor under a name from now on.
    fn keep(&self, name: &str, descriptor: BorrowedFd<'_>);
    /// Holds it no longer.
    fn forget(&self, name: &str);
}

/// Under which name a descriptor is kept for another process, until this is dropped.
pub(crate) struct Kept {
    pub(crate) keeper: Option<Arc<dyn Keeper>>,
    pub(crate) name: String,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Kept {
    /// What an earlier process left under this name.
    pub(crate) fn take(&self) -> Option<OwnedFd> {
        self.keeper.as_ref()?.take(&self.name)
    }

    pub(crate) fn keep(&self, descriptor: &OwnedFd) {
        if let Some(keeper) = &self.keeper {
            keeper.keep(&self.name, descriptor.as_fd());
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(keeper) = &self.keeper {
            keeper.forget(&self.name);
        }
    }
}

/// The first descriptor that a manager hands over (sd_listen_fds(3)).
const FIRST: i32 = 3;
/// How many are looked at. A process has no more descriptors under the usual limits.
const MOST: i32 = 65_536;

/// Descriptors that the starter of this process handed over, with their names: `LISTEN_FDS` and `LISTEN_FDNAMES`, as systemd does.
/// They are given out once.
pub fn inherited() -> Vec<(String, OwnedFd)> {
    static TAKEN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let number = |name: &str| std::env::var(name).ok()?.parse::<i32>().ok();
    if number("LISTEN_PID") != Some(std::process::id() as i32)
        || TAKEN.swap(true, std::sync::atomic::Ordering::Relaxed)
    {
        return Vec::new();
    }
    let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, MOST);
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat_with(String::new));
    (FIRST..FIRST + count).zip(names).filter_map(|(fd, name)| Some((name, adopt(fd)?))).collect()
}

/// Takes a descriptor that no value of this process owns yet.
fn adopt(fd: i32) -> Option<OwnedFd> {
    // SAFETY: the call asks about a number; it fails if there is no such descriptor.
    sys::check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }).ok()?;
    // SAFETY: it is open, and by the protocol it is this process's alone; each is given out once.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether a descriptor is a queue of this interface, of the same kind.
pub(crate) fn is_tap(descriptor: &OwnedFd, name: &str, flags: i16) -> bool {
    // SAFETY: an `ifreq` of zeros is a value.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes the `ifreq`, whose name the kernel ends with a zero.
    if unsafe { libc::ioctl(descriptor.as_raw_fd(), libc::TUNGETIFF as _, &raw mut ifreq) } < 0 {
        return false;
    }
    // SAFETY: the kernel has written this member, and the name.
    let (found, its) =
        unsafe { (std::ffi::CStr::from_ptr(ifreq.ifr_name.as_ptr()), ifreq.ifr_ifru.ifru_flags) };
    let kinds = (libc::IFF_TAP | libc::IFF_TUN | libc::IFF_MULTI_QUEUE | libc::IFF_NO_PI) as i16;
    found.to_bytes() == name.as_bytes() && its & kinds == flags & kinds
}
