// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a controller asks of an agent, and what it answers.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tester::frame::mac;
use tester::station::{Order, Plan};
use wire::MacAddr;

use crate::test::device::Driver;

/// What a controller may ask. Each is answered by one word; what may fail, by a `Result`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::test) enum Ask {
    /// Who are you? Answered by [`Hello`].
    Hello,
    /// What have you counted? [`Counters`](super::counters::Counters).
    Counters,
    /// Take these interfaces for me alone, until I close or am gone. [`Opened`] for each.
    Open(Vec<PortWord>, Driver),
    /// What do you reach by yourself, with frames of this size? [`Reach`].
    Calibrate(usize),
    /// Who has this address there? The Ethernet address, as six bytes.
    Resolve(Question),
    /// This is what is sent where, by all.
    Plan(Plan),
    /// Get ready for a trial. What the clock shows.
    Prepare(Order),
    /// Sending begins at this time of yours. Whether that is still to come.
    Go(u64),
    /// How far are you; and count what has arrived, if so.
    Progress(bool),
    /// The trial is over. What came of it.
    Finish,
    /// The trial is worth nothing.
    Abandon,
    /// Let go of the interfaces.
    Close,
}

/// A port of the station, as all who have a part in it number them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::test) struct PortWord {
    pub(in crate::test) name: String,
    /// The interface, if it is the agent's that is asked.
    pub(in crate::test) interface: Option<String>,
}

/// An address that is asked for at a port, by a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::test) struct Question {
    pub(in crate::test) port: usize,
    #[serde(with = "mac")]
    pub(in crate::test) host_mac: MacAddr,
    pub(in crate::test) host: IpAddr,
    pub(in crate::test) via: IpAddr,
}

/// Who an agent is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::test) struct Hello {
    pub(in crate::test) version: String,
    pub(in crate::test) machine: serde_json::Value,
    /// Agents that say the same have one steady clock.
    #[serde(default)]
    pub(in crate::test) clock: String,
}

/// An interface that an agent has taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::test) struct Opened {
    /// By what it is driven.
    pub(in crate::test) driver: String,
    pub(in crate::test) mtu: usize,
    /// Bits a second of its link, if it has a speed.
    pub(in crate::test) link_bits: Option<u64>,
    /// What a reader of the results must know.
    pub(in crate::test) note: Option<String>,
}

/// What a tester reaches by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::test) struct Reach {
    /// Frames a second, all ports together.
    pub(in crate::test) rate: f64,
    /// Median latency of a frame at a hundredth of it.
    pub(in crate::test) latency_ns: u64,
}
