// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a controller asks of an agent, and what it answers.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tester::frame::mac;
use tester::station::{Order, Plan};
use wire::MacAddr;

use crate::device::Driver;

/// What a controller may ask. Each is answered by one word; what may fail, by a `Result`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
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
    /// The same. What was seen of it, if it had started.
    Cut,
    /// Let go of the interfaces.
    Close,
}

/// A port of the station, as all who have a part in it number them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PortWord {
    pub(crate) name: String,
    /// The interface, if it is the agent's that is asked.
    pub(crate) interface: Option<String>,
}

/// An address that is asked for at a port, by a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) port: usize,
    #[serde(with = "mac")]
    pub(crate) host_mac: MacAddr,
    pub(crate) host: IpAddr,
    pub(crate) via: IpAddr,
}

/// Who an agent is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: String,
    pub(crate) machine: serde_json::Value,
    /// Agents that say the same have one steady clock.
    #[serde(default)]
    pub(crate) clock: String,
}

/// An interface that an agent has taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Opened {
    /// By what it is driven.
    pub(crate) driver: String,
    pub(crate) mtu: usize,
    /// Bits a second of its link, if it has a speed.
    pub(crate) link_bits: Option<u64>,
    /// What a reader of the results must know.
    pub(crate) note: Option<String>,
}

/// What a tester reaches by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reach {
    /// Frames a second, all ports together.
    pub(crate) rate: f64,
    /// Median latency of a frame at a hundredth of it.
    pub(crate) latency_ns: u64,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tester::frame::Flow;
    use tester::station::{Every, Extra, Stream};

    use super::*;

    /// What agents of another version would not understand, or understand otherwise. A change here requires a new version of the protocol,
    /// in [`channel`](super::super::channel), too.
    #[test]
    fn words_of_this_version() {
        let flow = Flow {
            src_mac: MacAddr([2; 6]),
            dst_mac: MacAddr([4; 6]),
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 1, 1].into(),
            src_port: 1,
            dst_port: 7,
        };
        let extra = Extra { frames: vec![vec![1]], every: Every::Time(Duration::from_secs(1)) };
        let stream = Stream {
            flows: vec![(flow, Some(1))],
            sizes: vec![64],
            extras: vec![extra],
            detours: vec![flow],
            ..Stream::default()
        };
        let plan = Plan { streams: vec![stream], ..Plan::default() };
        let said = serde_json::to_string(&Ask::Plan(plan)).expect("words");
        let flow = r#"{"src_mac":[2,2,2,2,2,2],"dst_mac":[4,4,4,4,4,4],"src":"10.0.0.1","dst":"10.0.1.1","src_port":1,"dst_port":7}"#;
        let extras = r#"[{"frames":[[1]],"every":{"Time":{"secs":1,"nanos":0}}}]"#;
        let stream = format!(
            r#"{{"flows":[[{flow},1]],"sizes":[64],"headers":[],"extras":{extras},"detours":[{flow}]}}"#
        );
        let rest = r#""everywhere":false,"is_bridged":false,"burst":0,"stragglers":{"secs":0,"nanos":0}"#;
        assert_eq!(said, format!(r#"{{"Plan":{{"streams":[{stream}],{rest}}}}}"#));
    }
}
