// SPDX-License-Identifier: MIT OR Apache-2.0
//! An exporter: what it has sent, and what is due.

use crate::Event;
use crate::message::{Format, Header, Message, OPTIONS_TEMPLATE_SET, Writer};
use crate::template::{Kind, TEMPLATES};

/// How an exporter sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The format of messages.
    pub format: Format,
    /// The observation domain: which translator the events are of.
    pub domain: u32,
    /// The number of the exporter, in records about itself.
    pub process: u32,
    /// Octets of a message at most, without headers of UDP and IP: 128 to 65,535.
    pub message_octets_max: usize,
    /// A template is sent again after so many milliseconds.
    pub refresh_ms: u64,
    /// A template is sent again with a record that comes so many messages later.
    pub refresh_messages: u64,
}

impl Settings {
    /// Messages of at most 1,400 octets. Templates are sent again after a minute or 100 messages.
    pub const fn new(format: Format) -> Settings {
        Settings {
            format,
            domain: 0,
            process: 0,
            message_octets_max: 1400,
            refresh_ms: 60_000,
            refresh_messages: 100,
        }
    }
}

/// Why there is no exporter with these settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Messages have no room for a record, or a length that does not fit their header.
    #[error("messages of {0} octets: they may have {min} to {max}", min = Exporter::MESSAGE_OCTETS.0, max = Exporter::MESSAGE_OCTETS.1)]
    MessageSize(usize),
}

/// A source of messages to one collector.
#[derive(Debug)]
pub struct Exporter {
    settings: Settings,
    started_ms: u64,
    /// Messages so far.
    messages: u64,
    /// Records of data so far.
    records: u64,
    not_sent: u64,
    /// When each template was sent last: the time and the number of messages before.
    sent: [Option<(u64, u64)>; TEMPLATES.len()],
    /// The message that is written, and those that are ready.
    open: Message,
    ready: Vec<Vec<u8>>,
}

impl Exporter {
    /// Octets of a message: the least and the most that can be set.
    pub const MESSAGE_OCTETS: (usize, usize) = (128, u16::MAX as usize);

    /// An exporter that has sent nothing. `now_ms` is in milliseconds since 1970, here and below.
    ///
    /// # Errors
    /// Messages could not hold what they should.
    pub fn new(settings: Settings, now_ms: u64) -> Result<Exporter, Error> {
        let (least, most) = Exporter::MESSAGE_OCTETS;
        if !(least..=most).contains(&settings.message_octets_max) {
            return Err(Error::MessageSize(settings.message_octets_max));
        }
        Ok(Exporter {
            settings,
            started_ms: now_ms,
            messages: 0,
            records: 0,
            not_sent: 0,
            sent: [None; TEMPLATES.len()],
            open: Message::new(settings.format),
            ready: Vec::new(),
        })
    }

    /// Messages with these events, and with templates that are due. There are none if nothing is due.
    pub fn export(&mut self, now_ms: u64, events: &[Event]) -> Vec<Vec<u8>> {
        self.refresh(now_ms);
        let mut record = Writer::default();
        for event in events {
            record.octets.clear();
            event.write(&mut record);
            self.put(now_ms, event.kind(), &record);
        }
        self.flush(now_ms);
        std::mem::take(&mut self.ready)
    }

    /// Messages that say that so many more records were not sent (RFC 7011, 4.3). NetFlow v9 has no such record, so there are none.
    pub fn not_sent(&mut self, now_ms: u64, more: u64) -> Vec<Vec<u8>> {
        self.not_sent = self.not_sent.saturating_add(more);
        if self.settings.format == Format::Ipfix {
            let mut record = Writer::default();
            for (field, value) in Kind::NotSent
                .template()
                .fields
                .iter()
                .zip([self.settings.process.into(), self.not_sent.into()])
            {
                record.number(value, field.length());
            }
            self.put(now_ms, Kind::NotSent, &record);
            self.flush(now_ms);
        }
        std::mem::take(&mut self.ready)
    }

    /// Sends each template again with its next record: the collector may not have the last ones.
    pub fn resend_templates(&mut self) {
        self.sent = [None; TEMPLATES.len()];
    }

    /// Messages so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Sends templates again whose time has come, whether they are needed now or not (RFC 7011, 8.1).
    fn refresh(&mut self, now_ms: u64) {
        for kind in Kind::ALL {
            let last = self.sent[kind as usize];
            if last.is_some_and(|(at_ms, _)| now_ms.saturating_sub(at_ms) >= self.settings.refresh_ms) {
                self.put_template(now_ms, kind);
            }
        }
    }

    fn put(&mut self, now_ms: u64, kind: Kind, record: &Writer) {
        let last = self.sent[kind as usize];
        if last.is_none_or(|(_, before)| self.messages - before >= self.settings.refresh_messages) {
            self.put_template(now_ms, kind);
        }
        self.put_record(now_ms, kind.id(), &record.octets);
    }

    fn put_template(&mut self, now_ms: u64, kind: Kind) {
        let mut record = Writer::default();
        kind.write(&mut record);
        let has_scope = kind.template().scopes > 0;
        let set = if has_scope { OPTIONS_TEMPLATE_SET } else { self.settings.format.template_set() };
        self.put_record(now_ms, set, &record.octets);
        self.sent[kind as usize] = Some((now_ms, self.messages));
    }

    fn put_record(&mut self, now_ms: u64, set: u16, record: &[u8]) {
        let most = self.settings.message_octets_max;
        if !self.open.put(set, record, most) {
            self.flush(now_ms);
            let fits = self.open.put(set, record, most);
            assert!(fits, "the least message has room for every record");
        }
    }

    /// Ends the message that is open.
    fn flush(&mut self, now_ms: u64) {
        if self.open.is_empty() {
            return;
        }
        let Settings { format, domain, .. } = self.settings;
        let message = std::mem::replace(&mut self.open, Message::new(format));
        // Both count what came before (RFC 7011, 3.1; RFC 3954, 5.1), and start again after 2^32.
        let sequence = match format {
            Format::Ipfix => self.records,
            Format::NetFlow9 => self.messages,
        } as u32;
        self.messages += 1;
        self.records += u64::from(message.data);
        let uptime_ms = now_ms.saturating_sub(self.started_ms);
        self.ready.push(message.finish(Header { format, now_ms, uptime_ms, sequence, domain }));
    }
}

#[cfg(test)]
mod tests;
