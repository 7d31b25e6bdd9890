// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is sent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::extension::Extension;
use crate::frame::Flow;

/// What one port sends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stream {
    /// Its flows, in turn, and the port at which each ought to arrive, if that is known.
    pub flows: Vec<(Flow, Option<usize>)>,
    /// The sizes of its frames in bytes, with FCS, over and over in this order (RFC 6985).
    pub sizes: Vec<usize>,
    /// Extension headers of those frames that are IPv6.
    pub headers: Vec<Extension>,
    /// Frames beside these, of which none is expected anywhere.
    pub extras: Vec<Extra>,
}

/// Frames that are sent again and again beside the test's frames, to see what that costs the device (RFC 2544 11).
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

/// What is sent, and for how long stragglers are waited for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    /// By port.
    pub streams: Vec<Stream>,
    /// Whether every frame ought to arrive at every other port, as broadcast frames do at a bridge: each of these copies counts
    /// as a frame sent.
    pub everywhere: bool,
    /// Frames leave in bursts of so many (RFC 2544 21); 0 and 1 are none. The rate is that over many bursts.
    pub burst: u64,
    /// How long after the last frame others may still arrive (RFC 2544, section 23: 2 s). A trial whose frames have all
    /// arrived is over soon after.
    pub stragglers: Duration,
}
