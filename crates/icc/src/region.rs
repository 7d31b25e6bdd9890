// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regions in sealed memory of the kernel, which have no name, and go with the last process that has them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FlockOperation, MemfdFlags, Mode, OFlags, SealFlags, flock};

use crate::endpoint::{Endpoint, NodeId};
use crate::layout::{Layout, LayoutError};
use crate::memory::{ReadOnly, WORD, Words};

/// Seals that a region must have before anybody maps it: memory that shrank would end its readers by `SIGBUS`.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// How often a receiver tries to lock a region.
const LOCK_TRIES: usize = 100;

/// A region that this process has made.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) layout: Layout,
    pub(crate) words: Words,
    fd: OwnedFd,
}

/// Why a region was not made or taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegionError {
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error("shared memory: {0}")]
    System(#[from] io::Error),
    #[error("the region's size is not sealed, so it is not safe to map")]
    NotSealed,
}

impl Region {
    /// A region for one endpoint, so that a descriptor of it gives access to nothing else.
    pub(crate) fn make(node: NodeId, generation: u64, endpoint: &Endpoint) -> Result<Region, RegionError> {
        let layout = Layout::plan(node, generation, std::slice::from_ref(endpoint))?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("junctor-icc", flags).map_err(io::Error::from)?;
        let bytes = (layout.words * WORD) as u64;
        // Others may not open it again by /proc to get more rights than their descriptor has.
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?;
        rustix::fs::ftruncate(&fd, bytes).map_err(io::Error::from)?;
        // Now, and not by a signal when a page is first touched, is it said that memory is short.
        rustix::fs::fallocate(&fd, rustix::fs::FallocateFlags::empty(), 0, bytes).map_err(io::Error::from)?;
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(io::Error::from)?;
        let words = Words::map(fd.as_fd(), layout.words)?;
        layout.write(&words);
        Ok(Region { layout, words, fd })
    }

    /// A descriptor to read and to write: each process gets an open file of its own, so that its locks are its own.
    ///
    /// # Errors
    /// Those of opening, which needs `/proc`.
    pub(crate) fn writable(&self) -> io::Result<OwnedFd> {
        self.opened(OFlags::RDWR)
    }

    /// A descriptor that can be mapped for reading only.
    ///
    /// # Errors
    /// As [`writable`](Self::writable).
    pub(crate) fn readable(&self) -> io::Result<OwnedFd> {
        self.opened(OFlags::RDONLY)
    }

    fn opened(&self, access: OFlags) -> io::Result<OwnedFd> {
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        Ok(rustix::fs::open(path, access | OFlags::CLOEXEC, Mode::empty())?)
    }
}

/// Locks a region, as a receiver does. The kernel frees the lock when the process ends, whether somebody serves the domain then or not.
pub(crate) fn lock(fd: BorrowedFd<'_>) {
    // A sender that looks at this moment has the lock for an instant. One that keeps it takes this receiver for gone; that is its own loss.
    for _ in 0..LOCK_TRIES {
        if flock(fd, FlockOperation::NonBlockingLockShared) != Err(rustix::io::Errno::WOULDBLOCK) {
            return;
        }
        std::thread::yield_now();
    }
}

/// Whether nobody holds such a lock.
pub(crate) fn is_unlocked(fd: BorrowedFd<'_>) -> bool {
    let free = flock(fd, FlockOperation::NonBlockingLockExclusive).is_ok();
    if free {
        // Nothing to do about an error: it would be a descriptor that is none.
        let _ = flock(fd, FlockOperation::Unlock);
    }
    free
}

/// Words of a descriptor that somebody else sent, if its size is sealed.
fn sealed_words(fd: BorrowedFd<'_>) -> Result<usize, RegionError> {
    let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| RegionError::NotSealed)?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(RegionError::NotSealed);
    }
    let bytes = rustix::fs::fstat(fd).map_err(io::Error::from)?.st_size;
    Ok(usize::try_from(bytes).unwrap_or(0) / WORD)
}

/// Maps a region that was received, to read and to write.
pub(crate) fn map(fd: BorrowedFd<'_>) -> Result<(Layout, Words), RegionError> {
    let words = Words::map(fd, sealed_words(fd)?)?;
    Ok((Layout::read(&words.clone().into())?, words))
}

/// Maps a region that was received, to read.
pub(crate) fn map_to_read(fd: BorrowedFd<'_>) -> Result<(Layout, ReadOnly), RegionError> {
    let words = ReadOnly::map(fd, sealed_words(fd)?)?;
    Ok((Layout::read(&words)?, words))
}

/// Memory that packets are lent from, mapped for reading only.
#[derive(Clone, Debug)]
pub struct LentMemory(pub(crate) ReadOnly);

impl LentMemory {
    pub(crate) fn map(fd: BorrowedFd<'_>) -> Result<LentMemory, RegionError> {
        Ok(LentMemory(ReadOnly::map(fd, sealed_words(fd)?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region() -> Region {
        Region::make(NodeId::new(1, 2), 3, &Endpoint::counters(4, "c", 5)).unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel's shared memory")]
    fn what_is_made_is_mapped() {
        let region = region();
        let (layout, words) = map(region.writable().unwrap().as_fd()).unwrap();
        assert_eq!((&layout, words.len()), (&region.layout, region.layout.words));
        assert_eq!(map_to_read(region.readable().unwrap().as_fd()).unwrap().0, layout);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel's shared memory")]
    fn who_reads_cannot_write() {
        let fd = region().readable().unwrap();
        let why = Words::map(fd.as_fd(), 1).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel's shared memory")]
    fn nobody_changes_the_size() {
        let fd = region().writable().unwrap();
        for bytes in [0, 1 << 20] {
            assert_eq!(rustix::fs::ftruncate(&fd, bytes), Err(rustix::io::Errno::PERM));
        }
        assert_eq!(rustix::fs::fcntl_add_seals(&fd, SealFlags::WRITE), Err(rustix::io::Errno::PERM));
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel's shared memory")]
    fn memory_that_may_shrink_is_not_mapped() {
        let fd = rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, 4096).unwrap();
        assert!(matches!(map(fd.as_fd()), Err(RegionError::NotSealed)));
        let file = tempfile::tempfile().unwrap();
        assert!(matches!(map(file.as_fd()), Err(RegionError::NotSealed)));
        rustix::fs::fcntl_add_seals(&fd, SEALS).unwrap();
        assert!(matches!(map(fd.as_fd()), Err(RegionError::Layout(LayoutError::NotARegion))));
    }
}
