// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where `junctor config` speaks to a service.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use saved::protocol::{self, Answer, Request};

/// How long a client may take to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause after an error of the socket: for want of descriptors, for instance.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a request.
const LONGEST: u64 = 4096;

/// What a client asks.
pub(super) struct Asked {
    pub(super) request: Request,
    /// Who asks.
    pub(super) by: String,
    stream: UnixStream,
}

impl Asked {
    /// Answers; a client that has gone needs no answer.
    pub(super) fn answer(&self, answer: &Answer) {
        let _ = (&self.stream).write_all(protocol::line(answer).as_bytes());
    }
}

/// The socket of a service, with a thread that takes requests.
pub(super) struct Socket {
    path: PathBuf,
    group: Option<u32>,
    sender: SyncSender<Asked>,
    listening: Option<Listening>,
}

struct Listening {
    listener: Arc<UnixListener>,
    /// Device and number of its file.
    id: (u64, u64),
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It ends the thread that waits for clients.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
    }
}

impl Socket {
    pub(super) fn new(path: PathBuf, group: Option<u32>, sender: SyncSender<Asked>) -> Socket {
        Socket { path, group, sender, listening: None }
    }

    fn id(&self) -> Option<(u64, u64)> {
        std::fs::symlink_metadata(&self.path).ok().map(|found| (found.dev(), found.ino()))
    }

    /// Listens at its path, if it does not yet or the file has gone.
    ///
    /// # Errors
    /// The path cannot be used.
    pub(super) fn listen(&mut self) -> Result<(), String> {
        let id = self.id();
        if self.listening.as_ref().is_some_and(|listening| Some(listening.id) == id) {
            return Ok(());
        }
        self.listening = None;
        let failed = |why: std::io::Error| format!("{}: {why}", self.path.display());
        // The lock of the service says that nobody serves what is left there.
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.file_type().is_socket()) {
            std::fs::remove_file(&self.path).map_err(failed)?;
        }
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let listener = Arc::new(UnixListener::bind(&self.path).map_err(failed)?);
        let mode = if self.group.is_some() { 0o660 } else { 0o600 };
        std::os::unix::fs::chown(&self.path, None, self.group).map_err(failed)?;
        std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
        if let (Some(group), Some(directory)) = (self.group, self.path.parent()) {
            // They may pass through it, and see nothing else in it.
            std::os::unix::fs::chown(directory, None, Some(group)).map_err(failed)?;
            let mode = std::fs::metadata(directory).map_err(failed)?.permissions().mode() | 0o010;
            std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
        }
        let (ours, sender) = (listener.clone(), self.sender.clone());
        std::thread::spawn(move || take(&ours, &sender));
        self.listening = self.id().map(|id| Listening { listener, id });
        Ok(())
    }
}

/// Takes clients until the socket is shut.
fn take(listener: &UnixListener, sender: &SyncSender<Asked>) {
    loop {
        match listener.accept() {
            // One after the other: each asks at once, or is given up after a few seconds.
            Ok((stream, _)) => {
                if let Err(TrySendError::Disconnected(_)) = hear(stream, sender) {
                    return;
                }
            }
            Err(why) if why.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => return,
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Passes a request on.
fn hear(stream: UnixStream, sender: &SyncSender<Asked>) -> Result<(), TrySendError<Asked>> {
    let refuse = |stream: &UnixStream, why: &str| {
        let _ = (&mut &*stream).write_all(protocol::line(&Answer::Failed { why: why.to_owned() }).as_bytes());
    };
    let timed =
        stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    let mut line = String::new();
    if timed.and_then(|()| BufReader::new((&stream).take(LONGEST)).read_line(&mut line)).is_err() {
        return Ok(());
    }
    let request: Request = match serde_json::from_str(&line) {
        Ok(request) => request,
        Err(why) => {
            refuse(&stream, &format!("not a request: {why}"));
            return Ok(());
        }
    };
    let by = rustix::net::sockopt::socket_peercred(&stream);
    let by = by.map_or_else(|_| "an unknown user".to_owned(), |by| format!("user {}", by.uid.as_raw()));
    match sender.try_send(Asked { request, by, stream }) {
        Err(TrySendError::Full(asked)) => {
            refuse(&asked.stream, "too many requests wait already; try again");
            Ok(())
        }
        done => done,
    }
}
