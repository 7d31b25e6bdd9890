// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conversation with one user plane: greeting, batches, answers. It does no I/O.

use feed::audit::Answer;
use feed::{Header, Reply, Update};

use crate::outbox::Outbox;

/// Batches that may be under way.
const WINDOW: u64 = 8;

/// See the module.
#[derive(Debug)]
pub struct Session {
    /// The number of this run of the control plane.
    feed: u64,
    state: State,
    /// Why the user plane needs everything, if it has said so.
    replay: Option<String>,
    /// The last batch that was sent, and the last one that was answered.
    sent: u64,
    applied: u64,
    /// Updates that the user plane could not carry out, in all.
    refused: u64,
    /// Changes that it tries again.
    outstanding: u32,
    /// Why it refused the latest.
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has been greeted.
    Silent,
    /// Waits for the answer to its greeting.
    Greeted,
    /// Batches flow.
    Open,
}

/// What is to be done after an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Nothing,
    /// The user plane needs everything ([`Rib::replay`](crate::Rib::replay)). Why.
    Replay(String),
    /// An answer to a question of an audit.
    Answer(Answer),
}

impl Session {
    /// A session of the run with this number.
    #[must_use]
    pub fn new(feed: u64) -> Session {
        Session {
            feed,
            state: State::Silent,
            replay: None,
            sent: 0,
            applied: 0,
            refused: 0,
            outstanding: 0,
            why: String::new(),
        }
    }

    /// The user plane has gone, or another one has come: it must be greeted.
    pub fn reset(&mut self) {
        self.state = State::Silent;
    }

    /// Something that was to be sent is lost: the user plane will need everything.
    pub fn lost(&mut self) {
        self.replay.get_or_insert_with(|| "changes were made while the router was away".into());
    }

    /// Whether batches flow.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Batches that were sent and answered, in all.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.sent, self.applied)
    }

    /// How many updates the user plane could not carry out, and why it refused the latest.
    #[must_use]
    pub fn refused(&self) -> (u64, &str) {
        (self.refused, &self.why)
    }

    /// How many changes the user plane had no room for, and tries again.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// The next message to send, if it is time for one. Give one back that could not be sent ([`unsent`](Self::unsent)).
    pub fn next(&mut self, outbox: &mut Outbox) -> Option<Vec<u8>> {
        match self.state {
            State::Silent => {
                let mut greeting = Vec::new();
                Header { sequence: self.sent }.encode(&mut greeting);
                Update::Hello { feed: self.feed }.encode(&mut greeting);
                self.state = State::Greeted;
                Some(greeting)
            }
            State::Open if self.sent - self.applied < WINDOW => {
                let batch = outbox.next(self.sent + 1)?;
                self.sent += 1;
                Some(batch)
            }
            State::Greeted | State::Open => None,
        }
    }

    /// Takes back what [`next`](Self::next) gave and the channel had no room for.
    pub fn unsent(&mut self, message: Vec<u8>, outbox: &mut Outbox) {
        match self.state {
            State::Open => {
                self.sent -= 1;
                outbox.put_back(message);
            }
            State::Silent | State::Greeted => self.state = State::Silent,
        }
    }

    /// Takes an answer in.
    pub fn receive(&mut self, reply: Reply) -> Next {
        match reply {
            Reply::Welcome { feed, sequence } if self.state == State::Greeted => {
                self.state = State::Open;
                let goes_on = feed == self.feed && sequence == self.sent;
                self.applied = self.sent;
                match self.replay.take() {
                    Some(why) => Next::Replay(why),
                    None if goes_on && self.sent > 0 => Next::Nothing,
                    None => Next::Replay("the user plane has other routes".into()),
                }
            }
            Reply::Outstanding { count, why } if self.state == State::Open => {
                self.outstanding = count;
                if count > 0 {
                    self.why = why;
                }
                Next::Nothing
            }
            Reply::Applied { sequence, refused, outstanding, why } if self.state == State::Open => {
                if sequence <= self.sent {
                    self.applied = self.applied.max(sequence);
                }
                self.refused += u64::from(refused);
                self.outstanding = outstanding;
                if refused > 0 {
                    self.why = why;
                }
                Next::Nothing
            }
            Reply::Audited { sequence, answer } if self.state == State::Open => {
                if sequence <= self.sent {
                    self.applied = self.applied.max(sequence);
                }
                Next::Answer(answer)
            }
            Reply::Replay { why } if self.state == State::Open => {
                // Greeted again, so that batches under way are not taken for parts of the replay.
                self.state = State::Silent;
                self.replay = Some(why);
                Next::Nothing
            }
            // Meant for one that was here before.
            _ => Next::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(outbox: &mut Outbox) {
        outbox.put(&Update::DropObject { id: 1 });
        outbox.close();
    }

    fn sequence(message: Option<Vec<u8>>) -> Option<u64> {
        message.map(|message| feed::Updates::new(&message).expect("a batch").0.sequence)
    }

    #[test]
    fn a_new_user_plane_gets_everything_and_a_known_one_the_next_batch() {
        let (mut session, mut outbox) = (Session::new(7), Outbox::default());
        batch(&mut outbox);
        assert_eq!(sequence(session.next(&mut outbox)), Some(0));
        assert_eq!(session.next(&mut outbox), None, "the answer comes first");
        let next = session.receive(Reply::Welcome { feed: 3, sequence: 9 });
        assert!(matches!(next, Next::Replay(_)));
        assert_eq!(sequence(session.next(&mut outbox)), Some(1));
        session.reset();
        assert_eq!(sequence(session.next(&mut outbox)), Some(1));
        assert_eq!(session.receive(Reply::Welcome { feed: 7, sequence: 1 }), Next::Nothing);
        session.reset();
        let _ = session.next(&mut outbox);
        let lost = session.receive(Reply::Welcome { feed: 7, sequence: 0 });
        assert!(matches!(lost, Next::Replay(_)), "a batch was lost");
    }

    #[test]
    fn what_was_lost_meanwhile_needs_a_replay() {
        let (mut session, mut outbox) = (Session::new(7), Outbox::default());
        let _ = session.next(&mut outbox);
        let _ = session.receive(Reply::Welcome { feed: 0, sequence: 0 });
        batch(&mut outbox);
        let _ = session.next(&mut outbox);
        session.reset();
        session.lost();
        let _ = session.next(&mut outbox);
        assert!(matches!(session.receive(Reply::Welcome { feed: 7, sequence: 1 }), Next::Replay(_)));
    }

    #[test]
    fn only_so_many_batches_are_under_way() {
        let (mut session, mut outbox) = (Session::new(7), Outbox::default());
        let _ = session.next(&mut outbox);
        let _ = session.receive(Reply::Welcome { feed: 0, sequence: 0 });
        (0..20).for_each(|_| batch(&mut outbox));
        let sent = std::iter::from_fn(|| session.next(&mut outbox)).count() as u64;
        assert_eq!(sent, WINDOW);
        let _ = session.receive(Reply::Applied {
            sequence: 3,
            refused: 2,
            outstanding: 1,
            why: "no link".into(),
        });
        let message = (0..3).filter_map(|_| session.next(&mut outbox)).last().expect("room for three");
        assert_eq!(session.next(&mut outbox), None);
        session.unsent(message, &mut outbox);
        assert_eq!(sequence(session.next(&mut outbox)), Some(WINDOW + 3));
        assert_eq!((session.refused(), session.outstanding()), ((2, "no link"), 1));
        let _ = session.receive(Reply::Outstanding { count: 0, why: String::new() });
        assert_eq!((session.refused(), session.outstanding()), ((2, "no link"), 0));
    }

    #[test]
    fn a_user_plane_that_needs_everything_is_greeted_again() {
        let (mut session, mut outbox) = (Session::new(7), Outbox::default());
        let _ = session.next(&mut outbox);
        let _ = session.receive(Reply::Welcome { feed: 0, sequence: 0 });
        assert_eq!(session.receive(Reply::Replay { why: "flushed".into() }), Next::Nothing);
        assert_eq!(sequence(session.next(&mut outbox)), Some(0));
        let next = session.receive(Reply::Welcome { feed: 7, sequence: 0 });
        assert_eq!(next, Next::Replay("flushed".into()));
    }
}
