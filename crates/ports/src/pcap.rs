// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capture files: pcap and pcapng, read and written, as plain readers and writers and as devices.
//!
//! Formats: `draft-ietf-opsawg-pcap` and `draft-ietf-opsawg-pcapng`. Both byte orders; microseconds and nanoseconds
//! in pcap, any `if_tsresol` in pcapng. The files are small languages of their own, so a damaged one is an ordinary
//! input: it gets an error that names the packet and the place, and what came before it stays good.

mod device;
mod read;
mod write;

use std::io;

pub use device::{FileReader, FileWriter};
pub use read::{Reader, Record};
pub use write::{Format, Writer};

/// Largest packet that a capture file may hold; libpcap's own limit.
pub const MAX_CAPTURE: usize = 262_144;

/// Why a capture file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened, read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The first bytes are those of no capture file.
    #[error("not a pcap or pcapng file: it begins with {0:02x?}")]
    NotCapture([u8; 4]),
    /// The file ends in the middle.
    #[error("truncated: the file ends at byte {at}, inside {inside}, after {packets} whole packets")]
    Truncated {
        /// What was being read.
        inside: &'static str,
        /// Bytes in the file.
        at: u64,
        /// Packets read before.
        packets: u64,
    },
    /// A length or another field that cannot be.
    #[error("damaged at byte {at}, after {packets} whole packets: {what}")]
    Damaged {
        /// What is wrong.
        what: String,
        /// Where the bad header begins.
        at: u64,
        /// Packets read before.
        packets: u64,
    },
}
