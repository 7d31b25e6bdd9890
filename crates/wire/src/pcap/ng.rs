// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing pcapng with several interfaces, comments and counts (draft-ietf-opsawg-pcapng), in this machine's byte order.

use std::io::{self, Write};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const STATISTICS: u32 = 5;

const COMMENT: u16 = 1;

/// Options of a block, as they stand in it.
#[derive(Default)]
struct Options(Vec<u8>);

impl Options {
    fn add(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.0.extend(code.to_ne_bytes());
        self.0.extend((value.len() as u16).to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn text(&mut self, code: u16, value: &str) {
        if !value.is_empty() {
            self.add(code, value.as_bytes());
        }
    }

    fn end(mut self) -> Vec<u8> {
        if !self.0.is_empty() {
            self.add(0, &[]);
        }
        self.0
    }
}

/// An interface of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// What there is to say about it; may be empty.
    pub description: String,
    /// With what its packets begin, as files number it.
    pub link_type: u16,
    /// Bytes of a packet that are kept at most; 0 for all.
    pub snaplen: u32,
    /// The filter expression that its packets have passed; may be empty.
    pub filter: String,
}

/// A packet to be written.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// The interface, by its number in the section.
    pub interface: u32,
    /// Nanoseconds since the epoch.
    pub timestamp_ns: u64,
    /// Its length, of which `bytes` may be the beginning.
    pub wire_len: u32,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// It was on its way in (or else out), where that is known.
    pub inbound: Option<bool>,
    /// What there is to say about it; may be empty.
    pub comment: &'a str,
}

/// A section under way.
#[derive(Debug)]
pub struct NgWriter<W: Write> {
    output: W,
    interfaces: u32,
    written: u64,
}

impl<W: Write> NgWriter<W> {
    /// Begins a section that says which program writes it.
    ///
    /// # Errors
    /// The stream's.
    pub fn new(output: W, program: &str) -> io::Result<NgWriter<W>> {
        let mut writer = NgWriter { output, interfaces: 0, written: 0 };
        let mut options = Options::default();
        options.text(4, program);
        let mut body = 0x1a2b_3c4du32.to_ne_bytes().to_vec();
        body.extend(1u16.to_ne_bytes());
        body.extend(0u16.to_ne_bytes());
        // The section's length is not known.
        body.extend(u64::MAX.to_ne_bytes());
        writer.block(SECTION, &body, options)?;
        Ok(writer)
    }

    /// Declares an interface; returns its number. Times of its packets are in nanoseconds.
    ///
    /// # Errors
    /// The stream's.
    pub fn interface(&mut self, interface: &Interface) -> io::Result<u32> {
        let mut options = Options::default();
        options.text(2, &interface.name);
        options.text(3, &interface.description);
        options.add(9, &[9]);
        if !interface.filter.is_empty() {
            // An expression follows, as libpcap reads it.
            options.add(11, &[&[0], interface.filter.as_bytes()].concat());
        }
        let mut body = interface.link_type.to_ne_bytes().to_vec();
        body.extend([0; 2]);
        body.extend(interface.snaplen.to_ne_bytes());
        self.block(INTERFACE, &body, options)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// The stream's.
    pub fn packet(&mut self, packet: &Captured<'_>) -> io::Result<()> {
        let mut options = Options::default();
        options.text(COMMENT, packet.comment);
        if let Some(inbound) = packet.inbound {
            options.add(2, &(if inbound { 1u32 } else { 2 }).to_ne_bytes());
        }
        let len = packet.bytes.len() as u32;
        let mut body = Vec::with_capacity(24 + packet.bytes.len());
        let (high, low) = ((packet.timestamp_ns >> 32) as u32, packet.timestamp_ns as u32);
        for word in [packet.interface, high, low, len, packet.wire_len.max(len)] {
            body.extend(word.to_ne_bytes());
        }
        body.extend(packet.bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        self.block(PACKET, &body, options)
    }

    /// Writes what an interface has counted up to this time: packets received, and those of them that were lost before they could be written.
    ///
    /// # Errors
    /// The stream's.
    pub fn statistics(
        &mut self,
        interface: u32,
        timestamp_ns: u64,
        received: u64,
        lost: u64,
        comment: &str,
    ) -> io::Result<()> {
        let mut options = Options::default();
        options.text(COMMENT, comment);
        options.add(4, &received.to_ne_bytes());
        options.add(5, &lost.to_ne_bytes());
        let (high, low) = ((timestamp_ns >> 32) as u32, timestamp_ns as u32);
        let body = [interface, high, low].map(u32::to_ne_bytes).concat();
        self.block(STATISTICS, &body, options)
    }

    fn block(&mut self, kind: u32, body: &[u8], options: Options) -> io::Result<()> {
        let options = options.end();
        let len = (12 + body.len() + options.len()) as u32;
        // One write for each block, so that a stream that breaks off has whole ones.
        let mut block = Vec::with_capacity(len as usize);
        block.extend(kind.to_ne_bytes());
        block.extend(len.to_ne_bytes());
        block.extend(body);
        block.extend(options);
        block.extend(len.to_ne_bytes());
        self.output.write_all(&block)?;
        self.written += u64::from(len);
        Ok(())
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Hands what is buffered to the operating system.
    ///
    /// # Errors
    /// The stream's.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcap::Reader;

    #[test]
    fn what_is_written_can_be_read() {
        let mut bytes = Vec::new();
        let mut writer = NgWriter::new(&mut bytes, "test").unwrap();
        let interface = Interface {
            name: "q[0]".into(),
            description: "Queue".into(),
            link_type: 1,
            snaplen: 4,
            filter: "udp".into(),
        };
        assert_eq!(writer.interface(&interface).unwrap(), 0);
        let packet = Captured {
            interface: 0,
            timestamp_ns: 1_700_000_000_123_456_789,
            wire_len: 60,
            bytes: &[1, 2, 3, 4, 5],
            inbound: Some(true),
            comment: "dropped",
        };
        writer.packet(&packet).unwrap();
        writer.packet(&Captured { bytes: &[9; 4], comment: "", inbound: None, ..packet }).unwrap();
        writer.statistics(0, packet.timestamp_ns, 3, 1, "one was lost").unwrap();
        let written = writer.written();
        assert_eq!(written, bytes.len() as u64);
        let mut reader = Reader::new(std::io::Cursor::new(bytes)).unwrap();
        assert_eq!(reader.link_type().unwrap(), 1);
        let mut data = Vec::new();
        let record = reader.next(&mut data).unwrap().unwrap();
        assert_eq!(
            (record.timestamp_ns, record.wire_len, &data[..]),
            (packet.timestamp_ns, 60, packet.bytes)
        );
        assert!(reader.next(&mut data).unwrap().is_some() && reader.next(&mut data).unwrap().is_none());
    }
}
