// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tap that somebody deleted is made again, where it was and with the same settings. Its queues then have other descriptors.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::keeper::Kept;
use crate::link::{Pace, Watch};
use crate::sys::{Aside, check};

use super::{TapSpec, announce, attach, configure};

/// How an interface is made again.
pub(super) struct Maker {
    /// With the interface's name.
    pub(super) spec: TapSpec,
    /// Where; `None` in the namespace of this process.
    pub(super) namespace: Option<Arc<File>>,
    pub(super) watch: Arc<Watch>,
    /// Whether it follows the MTU of its twin.
    pub(super) follows_mtu: bool,
}

impl std::fmt::Debug for Maker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.spec.fmt(f)
    }
}

impl Maker {
    /// Makes the interface with a queue, or one more queue of it. The calling thread ends in the interface's namespace.
    fn make(&self) -> Option<OwnedFd> {
        self.namespace.as_deref().map_or(Ok(()), enter).ok()?;
        let (descriptor, _) =
            attach(self.spec.name.as_deref()?, self.spec.kind, self.spec.queues > 1).ok()?;
        configure(&self.watch, &self.spec, self.follows_mtu).ok()?;
        announce::later(self.spec.name.as_deref()?, self.namespace.clone());
        Some(descriptor)
    }
}

/// Enters a network namespace with the calling thread, which ends soon.
pub(super) fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: the call changes which network the calling thread is in, and nothing else.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
    crate::opener::is_elsewhere();
    Ok(())
}

/// The descriptor of a queue, which both directions use.
#[derive(Debug)]
pub(super) struct Current {
    maker: Arc<Maker>,
    kept: Kept,
    /// Packets wait in the kernel for another process.
    held: AtomicBool,
    state: Mutex<State>,
}

struct State {
    descriptor: Arc<OwnedFd>,
    making: Aside<Option<OwnedFd>>,
    pace: Pace,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.descriptor.fmt(f)
    }
}

impl Current {
    pub(super) fn new(descriptor: OwnedFd, maker: Arc<Maker>, kept: Kept) -> Current {
        kept.keep(&descriptor);
        let (making, pace) = (Aside::default(), Pace::default());
        let state = Mutex::new(State { descriptor: Arc::new(descriptor), making, pace });
        Current { maker, kept, held: AtomicBool::new(false), state }
    }

    /// Leaves packets that come from the kernel to the process that takes this one's place, if its descriptor is kept.
    pub(super) fn hold(&self) {
        self.held.store(self.kept.keeper.is_some(), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn descriptor(&self) -> Arc<OwnedFd> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).descriptor.clone()
    }

    /// The descriptor in place of a dead one, if it is there. If not, has the interface made by another thread.
    #[cold]
    pub(super) fn instead_of(&self, dead: &Arc<OwnedFd>) -> Option<Arc<OwnedFd>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&state.descriptor, dead) {
            if !state.pace.overdue() {
                return None;
            }
            let maker = self.maker.clone();
            let made = state.making.look(move || maker.make()).flatten()?;
            self.kept.keep(&made);
            state.descriptor = Arc::new(made);
        }
        Some(state.descriptor.clone())
    }
}

/// Whether an error says that the interface behind a descriptor was deleted.
pub(super) fn is_deleted(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADFD)
}
