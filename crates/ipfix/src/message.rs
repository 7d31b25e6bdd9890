// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages: a header, and sets of records of one kind.

/// Octets of a set's header.
const SET_HEADER: usize = 4;
/// Sets end at a multiple of so many octets.
const ALIGNMENT: usize = 4;

/// The format of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 7011.
    Ipfix,
    /// RFC 3954.
    NetFlow9,
}

impl Format {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Ipfix => "IPFIX",
            Format::NetFlow9 => "NetFlow v9",
        }
    }

    /// Octets of a message's header.
    pub(crate) const fn header(self) -> usize {
        match self {
            Format::Ipfix => 16,
            Format::NetFlow9 => 20,
        }
    }

    /// The ID of sets of templates.
    pub(crate) const fn template_set(self) -> u16 {
        match self {
            Format::Ipfix => 2,
            Format::NetFlow9 => 0,
        }
    }
}

/// The ID of sets of templates that have a scope (RFC 7011, 3.3.2).
pub(crate) const OPTIONS_TEMPLATE_SET: u16 = 3;

/// Octets of a record, as they are written.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) octets: Vec<u8>,
}

impl Writer {
    /// Appends the last `length` octets of a number, most significant first; at most 16.
    pub(crate) fn number(&mut self, value: u128, length: usize) {
        self.octets.extend_from_slice(&value.to_be_bytes()[16 - length..]);
    }
}

/// What a header says besides what its message holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) format: Format,
    /// Milliseconds since 1970.
    pub(crate) now_ms: u64,
    /// Milliseconds since the exporter started.
    pub(crate) uptime_ms: u64,
    pub(crate) sequence: u32,
    pub(crate) domain: u32,
}

/// A message that is written.
#[derive(Debug)]
pub(crate) struct Message {
    octets: Vec<u8>,
    /// The ID and the place of the set that is open.
    set: Option<(u16, usize)>,
    /// Records of data.
    pub(crate) data: u32,
    /// Records of templates.
    templates: u32,
    header: usize,
}

impl Message {
    pub(crate) fn new(format: Format) -> Message {
        let header = format.header();
        Message { octets: vec![0; header], set: None, data: 0, templates: 0, header }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.octets.len() == self.header
    }

    /// Appends a record to a set with this ID, if the message has no more than `most` octets then.
    pub(crate) fn put(&mut self, set: u16, record: &[u8], most: usize) -> bool {
        let is_open = self.set.is_some_and(|(open, _)| open == set);
        let start = if is_open { self.octets.len() } else { self.aligned() + SET_HEADER };
        if (start + record.len()).next_multiple_of(ALIGNMENT) > most {
            return false;
        }
        if !is_open {
            self.close();
            self.set = Some((set, self.octets.len()));
            self.octets.extend_from_slice(&set.to_be_bytes());
            self.octets.extend_from_slice(&[0; 2]);
        }
        self.octets.extend_from_slice(record);
        // IDs below 256 are for sets of templates.
        if set < 256 {
            self.templates += 1
        } else {
            self.data += 1
        }
        true
    }

    /// Ends the message.
    pub(crate) fn finish(mut self, of: Header) -> Vec<u8> {
        self.close();
        let mut header = Writer::default();
        let (seconds, count) = ((of.now_ms / 1000).into(), (self.data + self.templates).into());
        match of.format {
            Format::Ipfix => {
                header.number(10, 2);
                header.number(self.octets.len() as u128, 2);
                header.number(seconds, 4);
            }
            Format::NetFlow9 => {
                header.number(9, 2);
                header.number(count, 2);
                header.number(of.uptime_ms.into(), 4);
                header.number(seconds, 4);
            }
        }
        header.number(of.sequence.into(), 4);
        header.number(of.domain.into(), 4);
        self.octets[..self.header].copy_from_slice(&header.octets);
        self.octets
    }

    fn aligned(&self) -> usize {
        self.octets.len().next_multiple_of(ALIGNMENT)
    }

    /// Ends the set that is open: zeros up to the next multiple of four, and its length.
    fn close(&mut self) {
        if let Some((_, at)) = self.set.take() {
            self.octets.resize(self.aligned(), 0);
            let length = (self.octets.len() - at) as u16;
            self.octets[at + 2..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}
