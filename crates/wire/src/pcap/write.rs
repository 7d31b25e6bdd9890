// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing capture files, in this machine's byte order.

use std::io::{self, Write};

/// The layout of a file to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// pcap with microseconds, which every program reads.
    #[default]
    Pcap,
    /// pcap with nanoseconds.
    PcapNano,
    /// pcapng with nanoseconds.
    PcapNg,
}

/// Writes packets to a capture file.
pub struct Writer {
    output: Box<dyn Write + Send>,
    format: Format,
    snaplen: usize,
    link_type: u32,
    /// Of a pcapng file: the link types of its interfaces, by their numbers.
    interfaces: Vec<u32>,
}

/// Interfaces of a file at most: pcapng has numbers of 16 bits for link types.
const INTERFACES: usize = 1 << 16;

impl Writer {
    /// Writes to a stream. A `snaplen` of 0 keeps whole packets.
    ///
    /// # Errors
    /// The stream's.
    pub fn new(
        output: impl Write + Send + 'static,
        format: Format,
        link_type: u32,
        snaplen: usize,
    ) -> io::Result<Writer> {
        let snaplen = if snaplen == 0 { super::MAX_CAPTURE } else { snaplen.min(super::MAX_CAPTURE) };
        let mut writer =
            Writer { output: Box::new(output), format, snaplen, link_type, interfaces: Vec::new() };
        match format {
            Format::Pcap => writer.pcap_header(0xa1b2_c3d4, link_type)?,
            Format::PcapNano => writer.pcap_header(0xa1b2_3c4d, link_type)?,
            Format::PcapNg => writer.ng_header()?,
        }
        Ok(writer)
    }

    fn words(&mut self, words: &[u32]) -> io::Result<()> {
        for word in words {
            self.output.write_all(&word.to_ne_bytes())?;
        }
        Ok(())
    }

    fn pcap_header(&mut self, magic: u32, link_type: u32) -> io::Result<()> {
        self.output.write_all(&magic.to_ne_bytes())?;
        self.output.write_all(&2u16.to_ne_bytes())?;
        self.output.write_all(&4u16.to_ne_bytes())?;
        self.words(&[0, 0, self.snaplen as u32, link_type])
    }

    fn ng_header(&mut self) -> io::Result<()> {
        // Section header: type, length, byte order, version, unknown section length, length.
        let version = u32::from_ne_bytes(
            [1u16.to_ne_bytes(), 0u16.to_ne_bytes()].concat().try_into().unwrap_or([0; 4]),
        );
        self.words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, version, u32::MAX, u32::MAX, 28])
    }

    /// The number of the pcapng file's interface with this link type, which is described where it is new.
    fn interface(&mut self, link_type: u32) -> io::Result<u32> {
        let known = self.interfaces.iter().position(|known| *known == link_type);
        if let Some(number) = known {
            return Ok(number as u32);
        }
        if self.interfaces.len() >= INTERFACES {
            return Err(io::Error::other("too many link types for one file"));
        }
        // Interface description with if_tsresol = 9 and the end of options.
        self.words(&[1, 32])?;
        self.output.write_all(&(link_type as u16).to_ne_bytes())?;
        self.output.write_all(&[0, 0])?;
        self.words(&[self.snaplen as u32])?;
        self.output.write_all(&9u16.to_ne_bytes())?;
        self.output.write_all(&1u16.to_ne_bytes())?;
        self.output.write_all(&[9, 0, 0, 0])?;
        self.words(&[0, 32])?;
        self.interfaces.push(link_type);
        Ok(self.interfaces.len() as u32 - 1)
    }

    /// Writes one packet that begins with a link header of type `link_type`. Whether the file can hold such packets: a pcap
    /// file has one type only, a pcapng file gets an interface for each.
    ///
    /// # Errors
    /// The stream's.
    pub fn write_as(
        &mut self,
        link_type: u32,
        timestamp_ns: u64,
        wire_len: usize,
        data: &[u8],
    ) -> io::Result<bool> {
        if self.format != Format::PcapNg && link_type != self.link_type {
            return Ok(false);
        }
        self.record(link_type, timestamp_ns, wire_len, data).map(|()| true)
    }

    /// Writes one packet: `data` as far as the snap length goes, of `wire_len` bytes on the wire.
    ///
    /// # Errors
    /// The stream's.
    pub fn write(&mut self, timestamp_ns: u64, wire_len: usize, data: &[u8]) -> io::Result<()> {
        self.record(self.link_type, timestamp_ns, wire_len, data)
    }

    fn record(&mut self, link_type: u32, timestamp_ns: u64, wire_len: usize, data: &[u8]) -> io::Result<()> {
        let data = &data[..data.len().min(self.snaplen)];
        let (captured, wire_len) = (data.len() as u32, wire_len.max(data.len()) as u32);
        let (seconds, ns) = ((timestamp_ns / 1_000_000_000) as u32, (timestamp_ns % 1_000_000_000) as u32);
        match self.format {
            Format::Pcap => self.words(&[seconds, ns / 1000, captured, wire_len])?,
            Format::PcapNano => self.words(&[seconds, ns, captured, wire_len])?,
            Format::PcapNg => {
                let interface = self.interface(link_type)?;
                let (high, low) = ((timestamp_ns >> 32) as u32, timestamp_ns as u32);
                let len = 32 + captured.next_multiple_of(4);
                self.words(&[6, len, interface, high, low, captured, wire_len])?;
                self.output.write_all(data)?;
                self.output.write_all(&[0; 3][..data.len().next_multiple_of(4) - data.len()])?;
                return self.words(&[len]);
            }
        }
        self.output.write_all(data)
    }

    /// Hands what is buffered to the operating system.
    ///
    /// # Errors
    /// The stream's.
    pub fn flush(&mut self) -> io::Result<()> {
        // A file without packets says what it is all the same.
        if self.format == Format::PcapNg && self.interfaces.is_empty() {
            self.interface(self.link_type)?;
        }
        self.output.flush()
    }
}
