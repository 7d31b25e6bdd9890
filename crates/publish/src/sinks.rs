// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where statistics go: the file next to the control socket, and channels of the deployment.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use icc::{BlockWriter, ChannelError, Node};
use planes::up::domain::STATISTICS;
use ports::plane::Planes;
use stats::{Composer, Directory, Publisher, Snapshot};

use crate::publisher::nanoseconds;
use observe::records;

/// Time between attempts to attach to a channel.
const PAUSE: Duration = Duration::from_secs(1);

/// One place that statistics go to.
pub(crate) struct Sink {
    place: Place,
    /// Which of the directories it has.
    described: u64,
    /// What was last said to be wrong.
    said: Option<Kind>,
}

/// What can be wrong. Each is said once, until it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Refused,
    NotAttached,
    TooLong,
}

type Wrong = (Kind, String);

fn refused(why: impl std::fmt::Display) -> Wrong {
    (Kind::Refused, why.to_string())
}

enum Place {
    File(Publisher),
    Channel(Box<Channel>),
}

impl From<Place> for Sink {
    fn from(place: Place) -> Sink {
        Sink { place, described: 0, said: None }
    }
}

/// A sink that is a file.
///
/// # Errors
/// It cannot be made.
pub(crate) fn file(path: &Path, interval: Duration) -> Result<Sink, String> {
    let made = Publisher::create(path, 0o600, records::now_ns(), nanoseconds(interval));
    made.map(|publisher| Place::File(publisher).into()).map_err(|why| why.to_string())
}

/// Sinks for the channels that the deployment gives this router.
pub(crate) fn channels(interval: Duration) -> Vec<Sink> {
    let names = std::env::var(STATISTICS).unwrap_or_default();
    let Some(domain) = client::channel::socket(None) else { return Vec::new() };
    let composer = || Composer::new(records::now_ns(), nanoseconds(interval));
    let of = |name: &str| Channel {
        name: name.to_owned(),
        domain: domain.clone(),
        composer: composer(),
        attached: None,
        coming: None,
        next_try: Instant::now(),
        fault: None,
    };
    names.split_ascii_whitespace().map(|name| Place::Channel(Box::new(of(name))).into()).collect()
}

impl Sink {
    /// Whether it has the directory of this number.
    pub(crate) fn has(&self, directory: u64) -> bool {
        self.described == directory
    }

    pub(crate) fn describe(&mut self, number: u64, directory: &Directory) {
        let done = match &mut self.place {
            Place::File(publisher) => publisher.describe(directory).map_err(refused),
            Place::Channel(channel) => {
                channel.composer.describe(directory);
                Ok(())
            }
        };
        match done {
            Ok(()) => self.described = number,
            Err(why) => self.tell(why),
        }
    }

    /// Publishes a snapshot, of the directory of this number.
    pub(crate) fn publish(&mut self, directory: u64, snapshot: &mut Snapshot) {
        if !self.has(directory) {
            return;
        }
        let done = match &mut self.place {
            Place::File(publisher) => publisher.publish(snapshot).map_err(refused),
            Place::Channel(channel) => channel.publish(snapshot),
        };
        match done {
            Ok(()) => self.said = None,
            Err(why) => self.tell(why),
        }
    }

    pub(crate) fn set_interval(&mut self, interval: Duration) {
        match &mut self.place {
            Place::File(publisher) => drop(publisher.set_interval_ns(nanoseconds(interval))),
            Place::Channel(channel) => channel.composer.set_interval_ns(nanoseconds(interval)),
        }
    }

    /// Says what is wrong, once.
    fn tell(&mut self, (kind, why): Wrong) {
        if self.said != Some(kind) {
            let place = match &self.place {
                Place::File(_) => String::new(),
                Place::Channel(channel) => format!(" on channel '{}'", channel.name),
            };
            errln!("junctor: warning: statistics are not published{place}: {why}");
            self.said = Some(kind);
        }
    }
}

type Attached = (Node, BlockWriter);

/// A channel of the deployment. A thread of its own attaches, for the supervisor may be slow to answer.
struct Channel {
    name: String,
    domain: PathBuf,
    composer: Composer,
    attached: Option<Attached>,
    coming: Option<Receiver<Result<Attached, String>>>,
    next_try: Instant,
    /// Why it could not be attached.
    fault: Option<String>,
}

impl Channel {
    fn publish(&mut self, snapshot: &mut Snapshot) -> Result<(), Wrong> {
        self.tend();
        let Some((_, writer)) = &mut self.attached else {
            return self.fault.clone().map_or(Ok(()), |why| Err((Kind::NotAttached, why)));
        };
        let block = self.composer.compose(snapshot);
        let (bytes, longest) = (block.len(), writer.longest());
        let done = match bytes <= longest {
            true => writer.publish(block),
            false => writer.publish(self.composer.too_long(bytes as u64)),
        };
        if done == Err(ChannelError::GivenUp) {
            self.attached = None;
            return Ok(());
        }
        done.map_err(refused)?;
        if bytes > longest {
            return Err((Kind::TooLong, stats::too_long(bytes as u64, Some(longest as u64))));
        }
        Ok(())
    }

    /// Attaches, also again when another supervisor serves the domain. Until then the old memory serves those who read it.
    fn tend(&mut self) {
        match self.coming.as_ref().map(Receiver::try_recv) {
            Some(Ok(Ok(next))) => {
                (self.coming, self.fault) = (None, None);
                if let Some((_, before)) = self.attached.replace(next) {
                    before.give_up();
                }
            }
            Some(Ok(Err(why))) => (self.coming, self.fault) = (None, Some(why)),
            Some(Err(TryRecvError::Disconnected)) => self.coming = None,
            Some(Err(TryRecvError::Empty)) => {}
            None => {
                let served = self.attached.as_ref().is_some_and(|(node, _)| node.is_served());
                if !served && Instant::now() >= self.next_try {
                    self.attach();
                }
            }
        }
    }

    fn attach(&mut self) {
        self.next_try = Instant::now() + PAUSE;
        let (sender, receiver) = channel();
        let (domain, name) = (self.domain.clone(), self.name.clone());
        let body = move || {
            let attached = Planes::at(&domain).node().and_then(|node| {
                let writer = node.block_writer(&name)?;
                Ok((node, writer))
            });
            // Nobody waits for it when the router ends.
            let _ = sender.send(attached.map_err(|why| why.to_string()));
        };
        if std::thread::Builder::new().name("statistics".into()).spawn(body).is_ok() {
            self.coming = Some(receiver);
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if let Some((_, writer)) = &mut self.attached {
            let _ = writer.publish(self.composer.ended());
        }
    }
}
