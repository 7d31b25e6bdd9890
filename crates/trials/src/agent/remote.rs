// SPDX-License-Identifier: MIT OR Apache-2.0
//! The controller's side of a test: an agent that drives ports for it.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tester::station::{Member, Order, Plan, Progress, Tally};
use tester::trial::Invalid;
use wire::MacAddr;

use super::channel::{AgentKey, Channel};
use super::counters::Counters;
use super::words::{Ask, Hello, Opened, PortWord, Question, Reach};
use super::{LEASE, PATIENCE};
use crate::Error;
use crate::device::Driver;
use crate::error::ChannelError;

/// An agent, and the connection to it.
pub(crate) struct Remote {
    /// Name and address, for messages.
    label: String,
    channel: Channel,
    hello: Hello,
    /// Nothing more can be asked: it is lost.
    is_lost: bool,
}

impl Remote {
    /// Connects to an agent, which messages call so.
    pub(crate) fn connect(label: String, address: &str, key: &AgentKey) -> Result<Remote, Error> {
        let failed = |why| {
            let is_absent = matches!(&why, ChannelError::Io(cause)
                if cause.kind() == std::io::ErrorKind::ConnectionRefused);
            let advice = if is_absent { "; start 'junctor test agent' there" } else { "" };
            Error::Agent { label: label.clone(), why, advice }
        };
        let mut channel = Channel::connect(address, key, PATIENCE).map_err(failed)?;
        channel.say(&Ask::Hello).map_err(failed)?;
        let hello: Hello = channel.hear().map_err(failed)?;
        let here = env!("CARGO_PKG_VERSION");
        if hello.version != here {
            return Err(Error::Unfit(format!(
                "agent {label}: it is of version {}, and this is {here}; run the same on all machines",
                hello.version
            )));
        }
        Ok(Remote { label, channel, hello, is_lost: false })
    }

    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Asks for something and hears the answer.
    fn ask<T: DeserializeOwned>(&mut self, ask: &Ask, patience: Duration) -> Result<T, Invalid> {
        if self.is_lost {
            return Err(Invalid::new(format!("agent {} is lost", self.label), ""));
        }
        let channel = &mut self.channel;
        let told =
            channel.wait_at_most(patience).and_then(|()| channel.say(ask)).and_then(|()| channel.hear());
        told.map_err(|why| {
            self.is_lost = true;
            Invalid::new(format!("agent {} is lost: {why}", self.label), "see that it runs, and what it says")
        })
    }

    /// The same of something that may fail there.
    fn try_ask<T: DeserializeOwned>(&mut self, ask: &Ask) -> Result<T, Error> {
        let told = self.ask::<Result<T, String>>(ask, PATIENCE)?;
        told.map_err(|said| Error::Refused { label: self.label.clone(), said })
    }

    /// What its machine has counted.
    pub(super) fn counters(&mut self) -> Result<Counters, Invalid> {
        let told: Result<Counters, String> = self.ask(&Ask::Counters, PATIENCE)?;
        told.map_err(|why| Invalid::new(format!("agent {}: {why}", self.label), ""))
    }

    /// Has it take these ports. Returns what is known of those that are its own.
    pub(crate) fn open(&mut self, ports: Vec<PortWord>, driver: Driver) -> Result<Vec<Opened>, Error> {
        self.try_ask(&Ask::Open(ports, driver))
    }

    /// What it reaches by itself.
    pub(crate) fn calibrate(&mut self, size: usize) -> Result<Reach, Error> {
        self.try_ask(&Ask::Calibrate(size))
    }

    /// Has it ask for an Ethernet address.
    pub(crate) fn resolve(&mut self, question: Question) -> Result<MacAddr, Error> {
        self.try_ask(&Ask::Resolve(question)).map(MacAddr)
    }
}

impl Member for Remote {
    fn plan(&mut self, plan: &Plan) -> Result<(), Invalid> {
        self.ask(&Ask::Plan(plan.clone()), PATIENCE)?
    }

    fn prepare(&mut self, order: &Order) -> Result<u64, Invalid> {
        self.ask(&Ask::Prepare(order.clone()), PATIENCE)?
    }

    fn go(&mut self, start_ns: u64) -> Result<bool, Invalid> {
        self.ask(&Ask::Go(start_ns), LEASE)?
    }

    fn progress(&mut self, count: bool) -> Result<Progress, Invalid> {
        self.ask(&Ask::Progress(count), LEASE)?
    }

    fn finish(&mut self) -> Result<Tally, Invalid> {
        self.ask(&Ask::Finish, PATIENCE)?
    }

    fn abandon(&mut self) {
        // Of one that is lost, nothing more is known; it ends by itself.
        let _: Result<(), Invalid> = self.ask(&Ask::Abandon, LEASE);
    }

    fn cut(&mut self) -> Option<Tally> {
        let told: Result<Result<Option<Tally>, Invalid>, Invalid> = self.ask(&Ask::Cut, LEASE);
        told.and_then(|told| told).ok().flatten()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // So that its interfaces are free when this program has ended. Without an answer they are a little later.
        let _: Result<(), Invalid> = self.ask(&Ask::Close, PATIENCE);
    }
}
