// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capture files, pcap and pcapng, as streams of packets.
//!
//! Formats: `draft-ietf-opsawg-pcap` and `draft-ietf-opsawg-pcapng`. Both byte orders; microseconds and nanoseconds
//! in pcap, any `if_tsresol` in pcapng. The files are small languages of their own, so a damaged one is an ordinary
//! input: it gets an error that names the packet and the place, and what came before it stays good. Opening files is
//! the caller's business.

pub mod ng;
mod read;
mod write;

use std::io;

pub use read::{Reader, Record};
pub use write::{Format, Writer};

/// Largest packet that a capture file may hold; libpcap's own limit.
pub const MAX_CAPTURE: usize = 262_144;

/// What a file is by its first bytes.
fn begins(bytes: [u8; 4]) -> String {
    let packed = match bytes {
        [0x1f, 0x8b, ..] => "gzip",
        [b'B', b'Z', b'h', _] => "bzip2",
        [0xfd, b'7', b'z', b'X'] => "xz",
        [0x28, 0xb5, 0x2f, 0xfd] => "zstd",
        [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => {
            return "a modified pcap of an old Linux libpcap, which 'editcap -F pcap IN OUT' converts"
                .to_owned();
        }
        _ => return format!("it begins with {bytes:02x?}"),
    };
    format!("it is compressed by {packed}; unpack it first")
}

/// Why a capture file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened, read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The first bytes are those of no capture file.
    #[error("not a pcap or pcapng file: {}", begins(*.0))]
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

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::*;

    /// A stream whose bytes can be looked at.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn file(format: Format, packets: &[(u64, usize, &[u8])]) -> Vec<u8> {
        let sink = Sink::default();
        let mut writer = Writer::new(sink.clone(), format, 101, 0).unwrap();
        packets.iter().for_each(|(time, len, data)| writer.write(*time, *len, data).unwrap());
        drop(writer);
        Arc::into_inner(sink.0).unwrap().into_inner().unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_resumed() {
        let packets: [(u64, usize, &[u8]); 3] =
            [(1_000_002_000, 3, b"abc"), (2_000_000_000, 9, b"wxyz"), (3_000_000_000, 0, b"")];
        for format in [Format::Pcap, Format::PcapNano, Format::PcapNg] {
            let bytes = file(format, &packets);
            let mut reader = Reader::new(Cursor::new(bytes.clone())).unwrap();
            assert_eq!(reader.link_type().unwrap(), 101);
            let mut data = Vec::new();
            let mut places = Vec::new();
            for (time, len, want) in packets {
                places.push(reader.position());
                let record = reader.next(&mut data).unwrap().unwrap();
                assert_eq!(
                    (record.timestamp_ns, record.wire_len, &data[..]),
                    (time, len, want),
                    "{format:?}"
                );
            }
            assert!(reader.next(&mut data).unwrap().is_none());
            let second = bytes[places[1] as usize..].to_vec();
            reader.resume(Cursor::new(second), places[1]);
            assert_eq!(reader.position(), places[1]);
            assert_eq!(reader.next(&mut data).unwrap().unwrap().wire_len, 9);
        }
    }

    #[test]
    fn each_link_type_gets_an_interface() {
        let packets = [(113, &b"cooked"[..]), (1, b"ethernet"), (9, b"ppp"), (113, b"again")];
        let sink = Sink::default();
        let mut writer = Writer::new(sink.clone(), Format::PcapNg, 1, 0).unwrap();
        for (link, data) in packets {
            assert!(writer.write_as(link, 1, data.len(), data).unwrap());
        }
        drop(writer);
        let bytes = Arc::into_inner(sink.0).unwrap().into_inner().unwrap();
        let mut reader = Reader::new(Cursor::new(bytes)).unwrap();
        assert!(!reader.is_uniform());
        let mut data = Vec::new();
        for (link, want) in packets {
            let record = reader.next(&mut data).unwrap().unwrap();
            assert_eq!((record.link_type, &data[..]), (link, want));
        }
        let mut pcap = Writer::new(Sink::default(), Format::Pcap, 1, 0).unwrap();
        assert!(!pcap.write_as(9, 1, 1, b"x").unwrap() && pcap.write_as(1, 1, 1, b"x").unwrap());
    }

    #[test]
    fn a_frame_check_sequence_changes_no_link_type() {
        for upper in [0x2400_0000_u32, 0x4400_0000, 0xf400_0000] {
            let mut bytes = file(Format::Pcap, &[(1, 4, b"abcd")]);
            bytes[20..24].copy_from_slice(&(upper | 1).to_le_bytes());
            assert_eq!(Reader::new(Cursor::new(bytes)).unwrap().link_type().unwrap(), 1, "{upper:x}");
        }
    }

    #[test]
    fn a_compressed_capture_is_called_so() {
        for (bytes, want) in
            [([0x1f, 0x8b, 8, 0], "gzip"), (*b"BZh9", "bzip2"), ([0x34, 0xcd, 0xb2, 0xa1], "modified pcap")]
        {
            let error = Reader::new(Cursor::new(bytes)).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(want), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(magic in 0..4usize, bytes: Vec<u8>, cut in 0..90usize) {
            let good = file([Format::Pcap, Format::PcapNano, Format::PcapNg, Format::Pcap][magic], &[(1, 4, b"abcd")]);
            let mut all = good[..cut.min(good.len())].to_vec();
            all.extend(bytes);
            if let Ok(mut reader) = Reader::new(Cursor::new(all)) {
                let mut data = Vec::new();
                while let Ok(Some(record)) = reader.next(&mut data) {
                    prop_assert_eq!(record.captured, data.len());
                }
            }
        }
    }
}
