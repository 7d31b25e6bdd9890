// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is sent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::extension::Extension;
use crate::frame::{Flow, smallest};

/// What one port sends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stream {
    /// Its flows, in turn, and the port at which each ought to arrive, if that is known.
    pub flows: Vec<(Flow, Option<usize>)>,
    /// The sizes of its frames in bytes, with FCS, over and over in this order (RFC 6985).
    pub sizes: Vec<usize>,
    /// Extension headers of those frames that are IPv6.
    pub headers: Vec<Extension>,
    /// Frames in addition to these, of which none is expected anywhere. Where there are no flows, those that leave at certain times still
    /// do.
    pub extras: Vec<Extra>,
    /// Where frames whose delays are kept go, one after the other, instead of where their flows do (RFC 2544 26.2: to a new network).
    /// They count as those flows', so they ought to arrive at the same port.
    pub detours: Vec<Flow>,
}

/// Frames that are sent again and again in addition to the test's frames, to see what that costs the device. They take the place of frames
/// of the test (RFC 2544 11): a rate is that of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extra {
    /// Without FCS: one each time, in turn, from one trial to the next.
    pub frames: Vec<Vec<u8>>,
    /// How often.
    pub every: Every,
}

/// How often something is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Every {
    /// Before each so many frames of the test.
    Frames(u64),
    /// At the start, and then after each such time.
    Time(Duration),
    /// The same, but the first one may have to be there some time before the test's frames ([`Station::update_ahead`]).
    ///
    /// [`Station::update_ahead`]: super::Station::update_ahead
    Update(Duration),
}

impl Extra {
    /// How many of them leave at certain times while the test's frames do, which takes so long.
    fn timed(&self, time: Duration, ahead: Duration) -> u128 {
        let times = |time: Duration, each: Duration| time.as_nanos().div_ceil(each.as_nanos().max(1));
        match self.every {
            Every::Frames(_) => 0,
            Every::Time(each) => times(time, each).max(1),
            // The first one has left before.
            Every::Update(each) => times(time + ahead, each).max(1) - u128::from(!ahead.is_zero()),
        }
    }

    /// How many of them leave for each frame of the test.
    fn per_frame(&self) -> f64 {
        match self.every {
            Every::Frames(frames) => 1.0 / frames.max(1) as f64,
            Every::Time(_) | Every::Update(_) => 0.0,
        }
    }
}

impl Plan {
    /// The least size that frames of all of these flows can have, in bytes with FCS.
    pub fn smallest(&self) -> usize {
        let of =
            |stream: &Stream| stream.flows.iter().map(|(flow, _)| smallest(flow.src, &stream.headers)).max();
        self.streams.iter().filter_map(of).max().unwrap_or_default()
    }

    /// How many of `frames` frames that a port sends within `time` are the test's, where updates leave so long before them. The others make
    /// room for the additional frames, though no more than half of them do. Where ports have to make room for different numbers, all do for
    /// the greatest.
    pub(super) fn tests_own(&self, frames: f64, time: Duration, ahead: Duration) -> f64 {
        let of_stream = |stream: &Stream| {
            let timed: u128 = stream.extras.iter().map(|extra| extra.timed(time, ahead)).sum();
            let per_frame: f64 = stream.extras.iter().map(Extra::per_frame).sum();
            (frames - timed as f64) / (1.0 + per_frame)
        };
        let senders = self.streams.iter().filter(|stream| !stream.flows.is_empty());
        senders.map(of_stream).fold(frames, f64::min).max(frames / 2.0)
    }
}

/// What is sent, and for how long stragglers are waited for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    /// By port.
    pub streams: Vec<Stream>,
    /// Whether every frame ought to arrive at every other port, as broadcast frames do at a bridge: each of these copies counts
    /// as a frame sent.
    pub everywhere: bool,
    /// Whether frames arrive at the Ethernet address to which they were sent, as they do behind a bridge: one with another address is damaged
    /// (RFC 2889 5.1.4).
    #[serde(default)]
    pub is_bridged: bool,
    /// Frames leave in bursts of so many (RFC 2544 21); 0 and 1 are none. The rate is that over many bursts.
    pub burst: u64,
    /// How long after the last frame others may still arrive (RFC 2544, section 23: 2 s). A trial whose frames have all
    /// arrived is over soon after.
    pub stragglers: Duration,
}
