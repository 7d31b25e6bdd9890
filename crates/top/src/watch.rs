// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router that runs publishes: in a segment, also when the file becomes another, on a channel, or by a management API; and
//! when the router ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stats::{Error, Reading, Segment, State};

use super::channel::Channel;
use super::far::{self, Far};
use super::look::Router;

/// Why there is nothing more to see.
#[derive(Debug, thiserror::Error)]
pub enum Gone {
    /// The router has ended, in an orderly way or not.
    #[error("the router has ended; 'junctor top --wait' waits for the next")]
    Ended,
    /// What it publishes cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Error),
    /// A channel cannot be attached to.
    #[error(transparent)]
    Channel(#[from] client::Failure),
    /// Nothing can be read from a channel.
    #[error("channel '{name}': {why}")]
    Silenced {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
    /// A management API does not say it.
    #[error(transparent)]
    Far(client::Failure),
    /// It lives, but nothing new comes.
    #[error(
        "the router publishes nothing new: it is stopped, or others have its processors; let it go on (SIGCONT), or give it processors of its own (junctor run -j LIST)"
    )]
    Silent,
}

/// How often it is looked whether something new has come.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The same over a network, and the interval that is assumed there.
const LOOK_FAR_EVERY: Duration = Duration::from_millis(200);
const FAR_INTERVAL: Duration = Duration::from_millis(500);
/// Intervals of the publisher for which something new is waited for.
const INTERVALS: u32 = 20;

/// See the module.
pub(super) enum Watch {
    File { path: PathBuf, segment: Box<Segment> },
    Channel(Box<Channel>),
    Far { far: Arc<dyn Far>, router: Router },
}

impl Watch {
    /// Opens the segment at this path.
    pub(super) fn file(path: &Path) -> Result<Watch, Error> {
        Ok(Watch::File { path: path.to_owned(), segment: Box::new(Segment::open(path)?) })
    }

    /// Attaches to a channel.
    pub(super) fn channel(name: &str) -> Result<Watch, Gone> {
        Channel::open(name).map(|channel| Watch::Channel(Box::new(channel)))
    }

    /// Reads what a management API says.
    pub(super) fn far(far: Arc<dyn Far>) -> Result<Watch, Gone> {
        let (router, _) = far::ask(&*far)?;
        Ok(Watch::Far { far, router })
    }

    /// Whose it is.
    pub(super) fn router(&self) -> Router {
        match self {
            Watch::File { segment, .. } => Router { pid: segment.pid(), started_ns: segment.started_ns() },
            Watch::Channel(channel) => channel.router(),
            Watch::Far { router, .. } => *router,
        }
    }

    /// The newest snapshot.
    pub(super) fn read(&mut self) -> Result<Reading, Gone> {
        match self {
            Watch::File { path, segment } => {
                follow(path, segment)?;
                Ok(segment.read()?)
            }
            Watch::Channel(channel) => channel.read(),
            Watch::Far { far, router } => match far::ask(&**far)? {
                (found, reading) if found == *router => Ok(reading),
                _ => Err(Gone::Ended),
            },
        }
    }

    /// How often one comes.
    fn interval(&self) -> Result<Duration, Gone> {
        match self {
            Watch::File { segment, .. } => Ok(Duration::from_nanos(segment.interval_ns()?)),
            Watch::Channel(channel) => Ok(channel.interval()),
            Watch::Far { .. } => Ok(FAR_INTERVAL),
        }
    }

    /// One that is newer than number `before`.
    pub(super) fn read_after(&mut self, before: u64) -> Result<Reading, Gone> {
        let mut waited = Duration::ZERO;
        let look_every = if matches!(self, Watch::Far { .. }) { LOOK_FAR_EVERY } else { LOOK_EVERY };
        loop {
            let reading = self.read()?;
            if reading.number > before {
                return Ok(reading);
            }
            let interval = self.interval()?.max(Duration::from_millis(100));
            if waited > interval * INTERVALS {
                return Err(Gone::Silent);
            }
            std::thread::sleep(look_every);
            waited += look_every;
        }
    }
}

/// Goes on in the file where the router does.
fn follow(path: &Path, segment: &mut Segment) -> Result<(), Gone> {
    if segment.state()? == State::Moved {
        *segment = Segment::open(path)?;
    }
    if segment.state()? == State::Ended || !segment.is_alive() {
        return Err(Gone::Ended);
    }
    Ok(())
}
