// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the threads of all feeds share: how they are started and stopped, how they report, and where they live.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::counters::{Counters, Tally};
use crate::model::{Change, Source};

/// Takes a feed's notices for the operator: a connection, a refusal, an error.
pub type Notices = Box<dyn Fn(String) + Send>;

/// Where a feed reports to. The channel is bounded, so a feed stops to read while its reader is behind.
pub type Reports = SyncSender<(Source, Vec<Change>)>;

/// How long a feed sleeps before it tries again to report to a reader that is behind.
const RETRY: Duration = Duration::from_millis(1);

/// A feed that runs. It stops when this is dropped, or when nobody receives its reports any more.
#[derive(Debug)]
pub struct Handle {
    /// Closed to stop the feed.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
}

impl Handle {
    /// What it has counted.
    #[must_use]
    pub fn counters(&self) -> Tally {
        self.counters.get()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic was printed by the thread.
            let _ = thread.join();
        }
    }
}

/// What a feed's thread has at hand.
pub(crate) struct Feeder {
    source: Source,
    reports: Reports,
    /// Hangs up when the feed is to stop.
    stop: OwnedFd,
    notices: Notices,
    counters: Arc<Counters>,
    pub(crate) tally: Tally,
    begin: Instant,
}

/// The feed is to stop.
pub(crate) struct Stopped;

impl Feeder {
    /// Time since the feed was started.
    pub(crate) fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    pub(crate) fn notice(&self, text: String) {
        (self.notices)(text);
    }

    /// Reports changes. Waits while the reader is behind.
    pub(crate) fn report(&mut self, changes: Vec<Change>) -> Result<(), Stopped> {
        self.counters.add(&mut self.tally);
        if changes.is_empty() {
            return Ok(());
        }
        let mut report = (self.source, changes);
        loop {
            match self.reports.try_send(report) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(_)) => return Err(Stopped),
                Err(TrySendError::Full(again)) => report = again,
            }
            self.wait([], Some(RETRY))?;
        }
    }

    /// Waits until one of these descriptors can be read, or the time is over. Says which can be read.
    pub(crate) fn wait<const N: usize>(
        &self,
        from: [Option<BorrowedFd<'_>>; N],
        timeout: Option<Duration>,
    ) -> Result<[bool; N], Stopped> {
        let stop = self.stop.as_fd();
        let mut polled: Vec<PollFd<'_>> = [stop]
            .into_iter()
            .chain(from.into_iter().flatten())
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // Rounded up, so that a wait never ends just before its time.
        let timeout =
            timeout.map(|time| Timespec::try_from(time).unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 }));
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => {
                self.notice(format!("cannot wait for sockets: {e}"));
                return Err(Stopped);
            }
        }
        let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
        if ready.next() == Some(true) {
            return Err(Stopped);
        }
        Ok(from.map(|fd| fd.is_some() && ready.next() == Some(true)))
    }
}

/// Starts the thread of a feed. `open` and `run` are called in it, after it has moved to the network namespace; what `open` says
/// is the result.
pub(crate) fn start<S>(
    source: Source,
    namespace: Option<&Path>,
    notices: Notices,
    reports: Reports,
    open: impl FnOnce() -> io::Result<S> + Send + 'static,
    run: impl FnOnce(&mut Feeder, S) -> Result<(), Stopped> + Send + 'static,
) -> io::Result<Handle> {
    let counters = Arc::new(Counters::default());
    let (stop, stopped) = std::os::unix::net::UnixStream::pair()?;
    let mut feeder = Feeder {
        source,
        reports,
        stop: stopped.into(),
        notices,
        counters: counters.clone(),
        tally: Tally::default(),
        begin: Instant::now(),
    };
    let namespace = namespace.map(Path::to_path_buf);
    let (opened, result) = mpsc::sync_channel(1);
    let name = match source {
        Source::Fpm => "feed-fpm",
        Source::Kernel => "feed-kernel",
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let inside = namespace.map_or(Ok(()), |namespace| enter(&namespace));
        match inside.and_then(|()| open()) {
            Ok(state) => {
                let _ = opened.send(Ok(()));
                drop(opened);
                // Both ends of a feed are the same to it.
                let _ = run(&mut feeder, state);
            }
            Err(e) => {
                let _ = opened.send(Err(e));
            }
        }
    })?;
    result.recv().unwrap_or_else(|_| Err(io::Error::other("the feed's thread ended")))?;
    Ok(Handle { stop: Some(stop.into()), thread: Some(thread), counters })
}

/// Moves the calling thread into a network namespace: a name of `ip netns`, or a path such as `/proc/1234/ns/net`.
fn enter(namespace: &Path) -> io::Result<()> {
    let path = if namespace.components().count() == 1 {
        PathBuf::from("/run/netns").join(namespace)
    } else {
        namespace.to_owned()
    };
    let failed =
        |e: io::Error| io::Error::new(e.kind(), format!("network namespace {}: {e}", path.display()));
    let file = File::open(&path).map_err(failed)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|e| failed(e.into()))
}
