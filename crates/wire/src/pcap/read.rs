// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading capture files.

use std::io::{ErrorKind, Read};

use super::{CaptureError, MAX_CAPTURE};

/// Link-layer type of Ethernet.
const ETHERNET: u32 = 1;
/// Link-layer type of packets without link header.
const RAW: u32 = 101;

/// What a capture file says of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was captured, in nanoseconds since the epoch.
    pub timestamp_ns: u64,
    /// Bytes captured: what is in the file.
    pub captured: usize,
    /// Bytes it had on the wire.
    pub wire_len: usize,
    /// What its first bytes are; 1 is Ethernet, 101 IP.
    pub link_type: u32,
}

/// Reads a pcap or pcapng file packet by packet.
pub struct Reader {
    input: Input,
    layout: Layout,
    packets: u64,
    /// The packet that [`Reader::link_type`] had to read ahead, and its bytes.
    ahead: Option<(Record, Vec<u8>)>,
    /// Where that one began.
    start: u64,
}

#[derive(Debug)]
enum Layout {
    Pcap { big_endian: bool, ns_per_tick: u64, link_type: u32 },
    Ng { big_endian: bool, interfaces: Vec<Interface> },
}

/// An interface of a pcapng section.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u32,
    snaplen: u32,
    resolution: Resolution,
    offset_s: i64,
}

/// Ticks per second, as `if_tsresol` gives them.
#[derive(Clone, Copy, Debug)]
enum Resolution {
    Decimal(u32),
    Binary(u32),
}

impl Resolution {
    fn ns(self, ticks: u64) -> u64 {
        let ns = match self {
            Resolution::Decimal(digits @ 0..=9) => u128::from(ticks) * 10u128.pow(9 - digits),
            Resolution::Decimal(digits) => u128::from(ticks) / 10u128.pow((digits - 9).min(38)),
            Resolution::Binary(bits) => (u128::from(ticks) * 1_000_000_000) >> bits.min(127),
        };
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// The byte stream, and how far it was read.
struct Input {
    stream: Box<dyn Read + Send>,
    at: u64,
}

impl Input {
    /// Reads as far as the stream goes; returns how many bytes there were.
    fn fill(&mut self, to: &mut [u8]) -> Result<usize, CaptureError> {
        let mut n = 0;
        while n < to.len() {
            match self.stream.read(&mut to[n..]) {
                Ok(0) => break,
                Ok(got) => n += got,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.at += n as u64;
        Ok(n)
    }

    /// Reads all of `to`, part of `inside`.
    fn exact(&mut self, to: &mut [u8], inside: &'static str, packets: u64) -> Result<(), CaptureError> {
        if self.fill(to)? < to.len() {
            return Err(CaptureError::Truncated { inside, at: self.at, packets });
        }
        Ok(())
    }

    /// Reads a header of `N` bytes, or `None` at a clean end of the file.
    fn header<const N: usize>(
        &mut self,
        inside: &'static str,
        packets: u64,
    ) -> Result<Option<[u8; N]>, CaptureError> {
        let mut header = [0; N];
        match self.fill(&mut header)? {
            0 => Ok(None),
            n if n == N => Ok(Some(header)),
            _ => Err(CaptureError::Truncated { inside, at: self.at, packets }),
        }
    }
}

fn u32_at(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let four = bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default();
    if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
}

fn u16_at(bytes: &[u8], at: usize, big_endian: bool) -> u16 {
    let two = bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default();
    if big_endian { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) }
}

impl Reader {
    /// Reads from a stream.
    ///
    /// # Errors
    /// The stream cannot be read or holds no capture file.
    pub fn new(stream: impl Read + Send + 'static) -> Result<Reader, CaptureError> {
        let mut input = Input { stream: Box::new(stream), at: 0 };
        let mut magic = [0; 4];
        input.exact(&mut magic, "the file header", 0)?;
        let layout = match u32::from_be_bytes(magic) {
            0xa1b2_c3d4 => pcap_header(&mut input, true, 1000)?,
            0xd4c3_b2a1 => pcap_header(&mut input, false, 1000)?,
            0xa1b2_3c4d => pcap_header(&mut input, true, 1)?,
            0x4d3c_b2a1 => pcap_header(&mut input, false, 1)?,
            0x0a0d_0d0a => Layout::Ng { big_endian: section_header(&mut input, 0)?, interfaces: Vec::new() },
            _ => return Err(CaptureError::NotCapture(magic)),
        };
        Ok(Reader { input, layout, packets: 0, ahead: None, start: 0 })
    }

    /// The link type of the first packet, or of the file when it has none.
    ///
    /// # Errors
    /// The file ends or is damaged before its first packet.
    pub fn link_type(&mut self) -> Result<u32, CaptureError> {
        if let Layout::Pcap { link_type, .. } = self.layout {
            return Ok(link_type);
        }
        if self.ahead.is_none() {
            let mut bytes = Vec::new();
            self.start = self.input.at;
            self.ahead = self.read(&mut bytes)?.map(|record| (record, bytes));
        }
        Ok(match (&self.ahead, &self.layout) {
            (Some((record, _)), _) => record.link_type,
            (None, Layout::Ng { interfaces, .. }) if !interfaces.is_empty() => interfaces[0].link_type,
            _ => ETHERNET,
        })
    }

    /// Whether all packets of the file have the same link type, because its format knows but one.
    pub fn is_uniform(&self) -> bool {
        matches!(self.layout, Layout::Pcap { .. })
    }

    /// Reads the next packet into `bytes`, replacing what it held; `None` at the end of the file.
    ///
    /// # Errors
    /// The file ends inside a packet or is damaged.
    pub fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Record>, CaptureError> {
        if let Some((record, mut ahead)) = self.ahead.take() {
            std::mem::swap(bytes, &mut ahead);
            return Ok(Some(record));
        }
        self.read(bytes)
    }

    /// Bytes of the stream before the packet that [`Reader::next`] will read.
    pub fn position(&self) -> u64 {
        self.ahead.as_ref().map_or(self.input.at, |_| self.start)
    }

    /// Goes on with another stream of the same file, which stands `at` bytes after its beginning, before a packet.
    pub fn resume(&mut self, stream: impl Read + Send + 'static, at: u64) {
        self.input = Input { stream: Box::new(stream), at };
        self.ahead = None;
    }

    fn read(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Record>, CaptureError> {
        let record = match self.layout {
            Layout::Pcap { big_endian, ns_per_tick, link_type } => {
                self.read_pcap(bytes, big_endian, ns_per_tick, link_type)?
            }
            Layout::Ng { .. } => self.read_ng(bytes)?,
        };
        self.packets += u64::from(record.is_some());
        Ok(record)
    }

    fn damaged<T>(&self, what: impl Into<String>, at: u64) -> Result<T, CaptureError> {
        Err(CaptureError::Damaged { what: what.into(), at, packets: self.packets })
    }

    fn body(&mut self, bytes: &mut Vec<u8>, len: usize) -> Result<(), CaptureError> {
        bytes.clear();
        bytes.resize(len, 0);
        self.input.exact(bytes, "a packet", self.packets)
    }

    fn read_pcap(
        &mut self,
        bytes: &mut Vec<u8>,
        big_endian: bool,
        ns_per_tick: u64,
        link_type: u32,
    ) -> Result<Option<Record>, CaptureError> {
        let at = self.input.at;
        let Some(header) = self.input.header::<16>("a packet header", self.packets)? else { return Ok(None) };
        let field = |i: usize| u32_at(&header, i * 4, big_endian);
        let captured = field(2) as usize;
        if captured > MAX_CAPTURE {
            return self.damaged(format!("a packet of {captured} bytes (at most {MAX_CAPTURE})"), at);
        }
        self.body(bytes, captured)?;
        let timestamp_ns = u64::from(field(0)) * 1_000_000_000 + u64::from(field(1)) * ns_per_tick;
        let wire_len = (field(3) as usize).max(captured);
        Ok(Some(Record { timestamp_ns, captured, wire_len, link_type }))
    }

    fn read_ng(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Record>, CaptureError> {
        loop {
            let at = self.input.at;
            let Some(kind) = self.input.header::<4>("a block header", self.packets)? else { return Ok(None) };
            if u32::from_be_bytes(kind) == 0x0a0d_0d0a {
                let big_endian = section_header(&mut self.input, self.packets)?;
                self.layout = Layout::Ng { big_endian, interfaces: Vec::new() };
                continue;
            }
            let Layout::Ng { big_endian, .. } = self.layout else { return Ok(None) };
            let mut len = [0; 4];
            self.input.exact(&mut len, "a block header", self.packets)?;
            let len = u32_at(&len, 0, big_endian) as usize;
            // Options and secrets make blocks longer than packets, but not by orders of magnitude.
            if len < 12 || !len.is_multiple_of(4) || len > MAX_CAPTURE * 64 {
                return self.damaged(format!("a block of {len} bytes"), at);
            }
            bytes.clear();
            bytes.resize(len - 8, 0);
            self.input.exact(bytes, "a block", self.packets)?;
            if u32_at(bytes, len - 12, big_endian) as usize != len {
                return self.damaged("a block whose two lengths differ", at);
            }
            bytes.truncate(len - 12);
            if let Some(record) = self.ng_block(u32_at(&kind, 0, big_endian), bytes, at)? {
                return Ok(Some(record));
            }
        }
    }

    /// Digests one block; when it is a packet, leaves its bytes in `body`.
    fn ng_block(&mut self, kind: u32, body: &mut Vec<u8>, at: u64) -> Result<Option<Record>, CaptureError> {
        let Layout::Ng { big_endian, interfaces } = &mut self.layout else { return Ok(None) };
        let be = *big_endian;
        let (interface, header, ticks) = match kind {
            1 => {
                if body.len() < 8 {
                    return self.damaged("an interface block that is too short", at);
                }
                interfaces.push(interface_block(body, be));
                return Ok(None);
            }
            // Simple packet: no interface, no time.
            3 => (0, 4, None),
            // Enhanced packet.
            6 => (u32_at(body, 0, be), 20, Some((u32_at(body, 4, be), u32_at(body, 8, be)))),
            // Packet, obsolete: a 16-bit interface and a drop count.
            2 => (u32::from(u16_at(body, 0, be)), 20, Some((u32_at(body, 4, be), u32_at(body, 8, be)))),
            _ => return Ok(None),
        };
        let Some(interface) = interfaces.get(interface as usize).copied() else {
            return self.damaged(format!("a packet of interface {interface}, which is not described"), at);
        };
        let wire_len = u32_at(body, header - 4, be) as usize;
        let captured = if kind == 3 {
            let limit = if interface.snaplen == 0 { usize::MAX } else { interface.snaplen as usize };
            wire_len.min(limit)
        } else {
            u32_at(body, 12, be) as usize
        };
        if captured > MAX_CAPTURE || body.len() < header || body.len() - header < captured {
            return self
                .damaged(format!("a packet of {captured} bytes in a block of {}", body.len() + 12), at);
        }
        let timestamp_ns = ticks.map_or(0, |(high, low)| {
            let ns = interface.resolution.ns(u64::from(high) << 32 | u64::from(low));
            ns.saturating_add_signed(interface.offset_s.saturating_mul(1_000_000_000))
        });
        body.truncate(header + captured);
        body.drain(..header);
        let link_type = interface.link_type;
        Ok(Some(Record { timestamp_ns, captured, wire_len: wire_len.max(captured), link_type }))
    }
}

fn pcap_header(input: &mut Input, big_endian: bool, ns_per_tick: u64) -> Result<Layout, CaptureError> {
    let mut rest = [0; 20];
    input.exact(&mut rest, "the file header", 0)?;
    let major = u16_at(&rest, 0, big_endian);
    if major != 2 {
        let what = format!("pcap version {major}, of which only 2 is known");
        return Err(CaptureError::Damaged { what, at: 4, packets: 0 });
    }
    // The upper bits say whether there is a frame check sequence, and how long it is.
    let link_type = u32_at(&rest, 16, big_endian) & 0xffff;
    // Some writers kept BSD's own numbers for raw IP.
    let link_type = if matches!(link_type, 12 | 14) { RAW } else { link_type };
    Ok(Layout::Pcap { big_endian, ns_per_tick, link_type })
}

/// Reads a section header block after its type; returns whether the section is big-endian.
fn section_header(input: &mut Input, packets: u64) -> Result<bool, CaptureError> {
    let at = input.at - 4;
    let mut head = [0; 8];
    input.exact(&mut head, "a section header", packets)?;
    let damaged = |what: String| Err(CaptureError::Damaged { what, at, packets });
    let big_endian = match head[4..] {
        [0x1a, 0x2b, 0x3c, 0x4d] => true,
        [0x4d, 0x3c, 0x2b, 0x1a] => false,
        _ => return damaged("a section header without byte order".to_owned()),
    };
    let len = u32_at(&head, 0, big_endian) as usize;
    if !(28..=1 << 20).contains(&len) || !len.is_multiple_of(4) {
        return damaged(format!("a section header of {len} bytes"));
    }
    let mut rest = vec![0; len - 12];
    input.exact(&mut rest, "a section header", packets)?;
    let major = u16_at(&rest, 0, big_endian);
    if major != 1 {
        return damaged(format!("pcapng version {major}, of which only 1 is known"));
    }
    Ok(big_endian)
}

fn interface_block(body: &[u8], big_endian: bool) -> Interface {
    let mut interface = Interface {
        link_type: u32::from(u16_at(body, 0, big_endian)),
        snaplen: u32_at(body, 4, big_endian),
        resolution: Resolution::Decimal(6),
        offset_s: 0,
    };
    let mut options = &body[8..];
    while options.len() >= 4 {
        let (code, len) = (u16_at(options, 0, big_endian), usize::from(u16_at(options, 2, big_endian)));
        let Some(value) = options.get(4..4 + len) else { break };
        match (code, value) {
            (0, _) => break,
            (9, [resolution, ..]) => {
                let exponent = u32::from(resolution & 0x7f);
                interface.resolution = if resolution & 0x80 == 0 {
                    Resolution::Decimal(exponent)
                } else {
                    Resolution::Binary(exponent)
                };
            }
            (14, _) => {
                let eight: [u8; 8] = value.first_chunk().copied().unwrap_or_default();
                interface.offset_s =
                    if big_endian { i64::from_be_bytes(eight) } else { i64::from_le_bytes(eight) };
            }
            _ => {}
        }
        options = options.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
    }
    interface
}
