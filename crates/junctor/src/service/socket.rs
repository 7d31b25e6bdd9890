// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where `junctor config` speaks to a service.
//!
//! Each client has a thread, which hears the request, waits for the answer, and sends it. The service itself never waits for a
//! client. A client has a few seconds to ask and to take its answer. The service's own user and root have places that others
//! cannot take.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use saved::protocol::{self, Answer, Request, Upgraded, Waits};

/// How long a client may take to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause after an error of the socket: for want of descriptors, for instance.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a request.
const LONGEST: usize = 4096;
/// Clients of the service's own user and root at the same time.
const OWNERS: usize = 16;
/// Clients of all other users at the same time.
const OTHERS: usize = 16;
/// Of these, of one user.
const EACH: usize = 4;
/// Requests that wait for the service at most.
pub(super) const MOST_WAITING: usize = OWNERS + OTHERS;

/// What a client asks.
pub(super) struct Asked {
    pub(super) request: Request,
    /// Who asks.
    pub(super) by: String,
    /// That one may write the commits, and so apply one.
    pub(super) is_owner: bool,
    reply: SyncSender<Answer>,
    /// Ends when the client has its answer, or has gone.
    told: Receiver<Infallible>,
}

impl Asked {
    /// Answers; a client that has gone needs no answer.
    pub(super) fn answer(&self, answer: Answer) {
        let _ = self.reply.try_send(answer);
    }

    /// Answers, and returns when the client has taken that: this process is about to become another program.
    pub(super) fn answer_and_wait(&self, answer: Answer) {
        self.answer(answer);
        let _ = self.told.recv_timeout(PATIENCE);
    }
}

/// What the service does at the moment, for those who only ask that.
#[derive(Clone, Debug, Default)]
pub(super) struct Present {
    pub(super) running: u64,
    pub(super) confirmed: u64,
    /// The commit that waits to be confirmed, the one that comes back, and when.
    pub(super) waiting: Option<(u64, u64, Instant)>,
    /// What became of the last upgrade.
    pub(super) upgraded: Option<Upgraded>,
    /// A transaction is being carried out.
    pub(super) busy: bool,
}

impl Present {
    fn answer(&self) -> Answer {
        let left = |until: Instant| until.saturating_duration_since(Instant::now()).as_millis() as u64;
        let waiting =
            self.waiting.map(|(commit, parent, until)| Waits { commit, parent, left_ms: left(until) });
        let upgraded = self.upgraded.clone();
        Answer::Status {
            running: self.running,
            confirmed: self.confirmed,
            waiting,
            upgraded,
            busy: self.busy,
        }
    }
}

/// The same, shared with clients' threads.
pub(super) type Board = Arc<Mutex<Present>>;

/// How many clients there are.
#[derive(Debug, Default)]
struct Places {
    owners: usize,
    others: HashMap<u32, usize>,
}

impl Places {
    fn admit(&mut self, user: u32, is_owner: bool) -> bool {
        if is_owner {
            let has_room = self.owners < OWNERS;
            self.owners += usize::from(has_room);
            return has_room;
        }
        let all: usize = self.others.values().sum();
        let own = self.others.get(&user).copied().unwrap_or(0);
        let has_room = all < OTHERS && own < EACH;
        if has_room {
            self.others.insert(user, own + 1);
        }
        has_room
    }

    fn leave(&mut self, user: u32, is_owner: bool) {
        if is_owner {
            self.owners -= 1;
        } else if let Some(own) = self.others.get_mut(&user) {
            *own -= 1;
            if *own == 0 {
                self.others.remove(&user);
            }
        }
    }
}

/// A client's place among those that may be there.
struct Place {
    places: Arc<Mutex<Places>>,
    user: u32,
    is_owner: bool,
}

impl Place {
    fn take(places: &Arc<Mutex<Places>>, user: u32) -> Option<Place> {
        let is_owner = user == 0 || user == rustix::process::geteuid().as_raw();
        let admitted = places.lock().unwrap_or_else(PoisonError::into_inner).admit(user, is_owner);
        admitted.then(|| Place { places: places.clone(), user, is_owner })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).leave(self.user, self.is_owner);
    }
}

/// The socket of a service, with threads that take requests.
pub(super) struct Socket {
    path: PathBuf,
    group: Option<u32>,
    desk: Desk,
    listening: Option<Listening>,
}

/// What clients' threads share.
#[derive(Clone)]
struct Desk {
    sender: SyncSender<Asked>,
    board: Board,
    places: Arc<Mutex<Places>>,
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
    pub(super) fn new(path: PathBuf, group: Option<u32>, board: Board) -> (Socket, Receiver<Asked>) {
        let (sender, asked) = sync_channel(MOST_WAITING);
        let desk = Desk { sender, board, places: Arc::default() };
        (Socket { path, group, desk, listening: None }, asked)
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
        let (ours, desk) = (listener.clone(), self.desk.clone());
        std::thread::spawn(move || take(&ours, &desk));
        self.listening = self.id().map(|id| Listening { listener, id });
        Ok(())
    }
}

/// Takes clients until the socket is shut.
fn take(listener: &UnixListener, desk: &Desk) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let user = rustix::net::sockopt::socket_peercred(&stream).map(|peer| peer.uid.as_raw());
                // A client without a user is a nobody.
                let user = user.unwrap_or(u32::MAX);
                let Some(place) = Place::take(&desk.places, user) else {
                    refuse(&stream, "too many clients ask already; try again");
                    continue;
                };
                let desk = desk.clone();
                // Without a thread, the client sees its connection end.
                let _ = std::thread::Builder::new()
                    .name("client".into())
                    .spawn(move || serve(&stream, place, &desk));
            }
            Err(why) if why.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => return,
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Sends a refusal to a client that was not heard. A new connection has room for it.
fn refuse(stream: &UnixStream, why: &str) {
    let line = protocol::line(&Answer::Failed { why: why.to_owned() });
    if stream.set_nonblocking(true).is_ok() {
        let _ = (&mut &*stream).write_all(line.as_bytes());
    }
}

/// Hears a client and answers it.
fn serve(stream: &UnixStream, place: Place, desk: &Desk) {
    let Some(line) = hear(stream, Instant::now() + PATIENCE) else { return };
    let failed = |why: String| Answer::Failed { why };
    let (telling, told) = sync_channel(0);
    let answer = match serde_json::from_slice(&line) {
        Err(why) => failed(format!("not a request: {why}")),
        Ok(Request::Status) => desk.board.lock().unwrap_or_else(PoisonError::into_inner).answer(),
        Ok(request) => {
            let (reply, answer) = sync_channel(1);
            let by = format!("user {}", place.user);
            let asked = Asked { request, by, is_owner: place.is_owner, reply, told };
            match desk.sender.try_send(asked) {
                Ok(()) => match answer.recv() {
                    Ok(answer) => answer,
                    // The service ends.
                    Err(_) => return,
                },
                Err(TrySendError::Full(_)) => failed("too many requests wait already; try again".into()),
                Err(TrySendError::Disconnected(_)) => return,
            }
        }
    };
    // Who has the answer may ask again at once. It fits into the connection, so nobody is waited for.
    drop(place);
    say(stream, protocol::line(&answer).as_bytes(), Instant::now() + PATIENCE);
    drop(telling);
}

fn left(until: Instant) -> Option<Duration> {
    until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

/// The line of a client, if it comes in time, however slowly its bytes come.
fn hear(stream: &UnixStream, until: Instant) -> Option<Vec<u8>> {
    let (mut line, mut bytes) = (Vec::new(), [0; 512]);
    while line.len() < LONGEST {
        stream.set_read_timeout(Some(left(until)?)).ok()?;
        let n = match (&mut &*stream).read(&mut bytes) {
            Err(why) if why.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.ok()?,
        };
        line.extend_from_slice(&bytes[..n]);
        if n == 0 || bytes[..n].contains(&b'\n') {
            return Some(line);
        }
    }
    None
}

/// Sends bytes that a client takes in time.
fn say(stream: &UnixStream, mut bytes: &[u8], until: Instant) {
    while !bytes.is_empty() {
        let timed = left(until).map(|left| stream.set_write_timeout(Some(left)));
        match timed.map(|_| (&mut &*stream).write(bytes)) {
            Some(Ok(n)) if n > 0 => bytes = &bytes[n..],
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_owners_are_not_taken_by_others() {
        let mut places = Places::default();
        let taken =
            |places: &mut Places, user, is_owner| (0..99).filter(|_| places.admit(user, is_owner)).count();
        assert_eq!(taken(&mut places, 7, false), EACH);
        for user in 8..99 {
            taken(&mut places, user, false);
        }
        assert_eq!(places.others.values().sum::<usize>(), OTHERS);
        assert_eq!(taken(&mut places, 0, true), OWNERS);
        places.leave(7, false);
        assert!(!places.admit(0, true) && places.admit(99, false));
        (0..OWNERS).for_each(|_| places.leave(0, true));
        assert_eq!(places.owners, 0);
    }

    #[test]
    fn a_client_has_one_deadline_for_all_its_bytes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&theirs).write_all(b"{\"ask\":").unwrap();
        assert_eq!(hear(&ours, Instant::now() + Duration::from_millis(50)), None);
        (&theirs).write_all(b"1}\n").unwrap();
        assert_eq!(hear(&ours, Instant::now() + PATIENCE), Some(b"1}\n".to_vec()));
        (&theirs).write_all(&[b'x'; LONGEST]).unwrap();
        assert_eq!(hear(&ours, Instant::now() + PATIENCE), None, "it has no end");
        // Nobody takes what is said: it ends all the same.
        say(&ours, &vec![0; 4 << 20], Instant::now() + Duration::from_millis(50));
    }
}
