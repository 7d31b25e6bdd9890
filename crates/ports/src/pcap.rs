// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capture files, pcap and pcapng: opened by name, and as devices. [`wire::pcap`] knows the formats.

mod device;

use std::io::{self, BufReader, BufWriter};
use std::path::Path;

pub use device::{FileReader, FileWriter};
pub use wire::pcap::{CaptureError, Format, MAX_CAPTURE, Reader, Record, Writer};

/// Opens a capture file to be read; `-` is standard input.
///
/// # Errors
/// The file cannot be read or is no capture file.
pub fn open(path: impl AsRef<Path>) -> Result<Reader, CaptureError> {
    let path = path.as_ref();
    if path.as_os_str() == "-" {
        return Reader::new(io::stdin());
    }
    Reader::new(BufReader::with_capacity(1 << 18, sync::pipes::open(path, sync::pipes::PATIENCE)?))
}

/// Creates a capture file, or empties it; `-` is standard output. A `snaplen` of 0 keeps whole packets.
///
/// # Errors
/// The file cannot be written.
pub fn create(path: impl AsRef<Path>, format: Format, link_type: u32, snaplen: usize) -> io::Result<Writer> {
    let path = path.as_ref();
    if path.as_os_str() == "-" {
        return Writer::new(io::stdout(), format, link_type, snaplen);
    }
    Writer::new(BufWriter::with_capacity(1 << 18, sync::private::create(path)?), format, link_type, snaplen)
}
