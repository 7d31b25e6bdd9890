// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way to one user plane: a [`Session`] over a channel of a deployment.

use std::time::{Duration, Instant};

use feed::Reply;
use icc::{Node, Receiver, Sender};

use crate::rib::Rib;
use crate::session::{Next, Session};

/// How long to wait before the channel is attached again.
const PAUSE: Duration = Duration::from_millis(100);
/// The least time from one replay to the greeting that may call for the next.
const BETWEEN_REPLAYS: Duration = Duration::from_secs(1);
/// How long a greeting waits for its answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The ends of a channel that leads to a user plane.
pub struct Ends {
    /// What serves them.
    pub node: Node,
    /// Takes batches.
    pub sender: Sender,
    /// Gives answers.
    pub receiver: Receiver,
}

/// Attaches to the channel.
pub type Connect = Box<dyn FnMut() -> Result<Ends, String> + Send>;

/// See the module.
pub struct Uplink {
    connect: Connect,
    ends: Option<Ends>,
    session: Session,
    /// How many user planes had attached when the session began.
    attached: u64,
    greeted: Option<Instant>,
    /// No attempt before.
    retry: Option<Instant>,
    /// Why there is no user plane, if there is none.
    trouble: Option<String>,
    replays: u64,
    /// When the latest replay began, and why.
    latest: Option<(Instant, String)>,
}

impl Uplink {
    /// A way by the channel that `connect` attaches to.
    #[must_use]
    pub fn new(feed: u64, connect: Connect) -> Uplink {
        Uplink {
            connect,
            ends: None,
            session: Session::new(feed),
            attached: 0,
            greeted: None,
            retry: None,
            trouble: Some("not connected yet".into()),
            replays: 0,
            latest: None,
        }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Why no batches flow, if none do.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Replays so far.
    #[must_use]
    pub fn replays(&self) -> u64 {
        self.replays
    }

    /// Whether the user plane must answer before more can be sent.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        let (sent, applied) = self.session.progress();
        self.session.is_open() && sent > applied
    }

    /// Sends and receives what can be sent and received now.
    pub fn pump(&mut self, rib: &mut Rib) {
        if let Err(why) = self.converse(rib) {
            self.ends = None;
            self.session.reset();
            self.trouble = Some(why);
            self.retry = Some(Instant::now() + PAUSE);
        }
        if !self.session.is_open() && !rib.outbox().is_empty() {
            // A replay will say it all.
            rib.outbox().clear();
            self.session.lost();
        }
    }

    /// Why the latest replay was needed.
    #[must_use]
    pub fn replayed_for(&self) -> Option<&str> {
        self.latest.as_ref().map(|(_, why)| &**why)
    }

    /// Waits for an answer.
    pub fn wait(&mut self, limit: Duration) {
        if let Some(Ends { receiver, .. }) = &mut self.ends {
            let _ = receiver.wait(Some(limit));
        }
    }

    /// Attaches to the channel if it is time. Who served the domain may have died: then the old ends serve as long as nobody else does.
    fn attach(&mut self) -> Result<(), String> {
        if self.ends.as_ref().is_some_and(|ends| ends.node.is_served()) {
            return Ok(());
        }
        if self.retry.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        self.retry = Some(Instant::now() + PAUSE);
        match (self.connect)() {
            Ok(ends) => {
                self.ends = Some(ends);
                self.session.reset();
                Ok(())
            }
            Err(_) if self.ends.is_some() => Ok(()),
            Err(why) => Err(why),
        }
    }

    fn converse(&mut self, rib: &mut Rib) -> Result<(), String> {
        self.attach()?;
        let Some(Ends { sender, receiver, .. }) = &mut self.ends else { return Ok(()) };
        let peer = receiver.peer();
        if !peer.present {
            self.session.reset();
            self.greeted = None;
            self.trouble = Some("no router takes routes at the other end of the channel".into());
            return Ok(());
        }
        if peer.attached != self.attached {
            self.attached = peer.attached;
            self.session.reset();
        }
        let mut buffer = [0; 2048];
        while let Some(bytes) = receiver.receive(&mut buffer).map_err(|why| why.to_string())? {
            let reply = Reply::decode(&buffer[..bytes]).map_err(|why| why.to_string())?;
            if let Next::Replay(why) = self.session.receive(reply) {
                self.replays += 1;
                self.latest = Some((Instant::now(), why));
                rib.replay();
            }
        }
        if self.session.is_open() {
            self.trouble = None;
            self.greeted = None;
        } else if self.greeted.is_some_and(|at| at.elapsed() > PATIENCE) {
            self.session.reset();
        }
        // A router that cannot take a replay asks for one after the other.
        if !self.session.is_open()
            && self.latest.as_ref().is_some_and(|(at, _)| at.elapsed() < BETWEEN_REPLAYS)
        {
            return Ok(());
        }
        while let Some(message) = self.session.next(rib.outbox()) {
            match sender.send(&message) {
                Ok(()) if self.session.is_open() => {}
                Ok(()) => self.greeted = Some(Instant::now()),
                Err(icc::ChannelError::Full) => {
                    self.session.unsent(message, rib.outbox());
                    break;
                }
                Err(why) => return Err(why.to_string()),
            }
        }
        Ok(())
    }
}
