// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way to one user plane: a [`Session`] over a channel of a deployment.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use feed::Reply;
use feed::audit::Answer;
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
    /// Who waits for the answers to questions of an audit, by their tokens.
    askers: VecDeque<(u32, SyncSender<Answer>)>,
    token: u32,
}

/// Questions that may wait for their answers.
const QUESTIONS: usize = 16;

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
            askers: VecDeque::new(),
            token: 0,
        }
    }

    /// A token for a question, whose answer goes to `asker`; `None` while no batches flow. If they cease to flow, the asker is dropped.
    pub fn ask(&mut self, asker: SyncSender<Answer>) -> Option<u32> {
        if !self.session.is_open() {
            return None;
        }
        self.token = self.token.wrapping_add(1);
        if self.askers.len() == QUESTIONS {
            self.askers.pop_front();
        }
        self.askers.push_back((self.token, asker));
        Some(self.token)
    }

    fn answer(&mut self, answer: Answer) {
        let at = self.askers.iter().position(|(token, _)| *token == answer.token);
        if let Some((_, asker)) = at.and_then(|at| self.askers.remove(at)) {
            // Who does not wait any more needs no answer.
            let _ = asker.try_send(answer);
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
        if !self.session.is_open() {
            self.askers.clear();
        }
        if !self.session.is_open() && !rib.outbox().is_empty() {
            rib.give_up_sending();
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
        let mut answers = Vec::new();
        let mut buffer = [0; 1 << 14];
        while let Some(bytes) = receiver.receive(&mut buffer).map_err(|why| why.to_string())? {
            let reply = Reply::decode(&buffer[..bytes]).map_err(|why| why.to_string())?;
            match self.session.receive(reply) {
                Next::Nothing => {}
                Next::Replay(why) => {
                    self.replays += 1;
                    self.latest = Some((Instant::now(), why));
                    self.askers.clear();
                    rib.replay();
                }
                Next::Answer(answer) => answers.push(answer),
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
        answers.into_iter().for_each(|answer| self.answer(answer));
        Ok(())
    }
}
