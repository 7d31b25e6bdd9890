// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics of a router on a channel of its deployment, also when the router moves to another supervisor's domain.

use std::time::Duration;

use icc::{BlockReader, ChannelError, Node};
use stats::{Content, Decoder, Reading};

use super::look::Router;
use super::watch::Gone;

/// See the module.
pub(super) struct Channel {
    name: String,
    /// Nothing in a guest, where nobody serves the domain.
    node: Option<Node>,
    reader: BlockReader,
    decoder: Decoder,
    block: Vec<u8>,
    router: Router,
    interval: Duration,
    /// Blocks of domains before this one, and the number of the last block: numbers never fall.
    before: u64,
    last: u64,
}

impl Channel {
    /// Attaches, and waits for nothing: something must have been published already.
    pub(super) fn open(name: &str) -> Result<Channel, Gone> {
        let (node, reader) = client::channel::block_reader(name)?;
        let mut channel = Channel {
            name: name.to_owned(),
            node,
            reader,
            decoder: Decoder::default(),
            block: Vec::new(),
            router: Router::default(),
            interval: Duration::ZERO,
            before: 0,
            last: 0,
        };
        channel.read()?;
        Ok(channel)
    }

    /// Whose statistics these are.
    pub(super) fn router(&self) -> Router {
        self.router
    }

    /// How often they come.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// The newest snapshot.
    pub(super) fn read(&mut self) -> Result<Reading, Gone> {
        self.follow();
        let number = match self.reader.read(&mut self.block) {
            Err(ChannelError::GivenUp) => {
                // The router attaches elsewhere first, and gives up then.
                let (node, reader) = client::channel::block_reader(&self.name)?;
                self.go_on(node, reader);
                self.reader.read(&mut self.block)
            }
            read => read,
        };
        let number = match number {
            Ok(number) => number,
            Err(ChannelError::Nothing) if !self.reader.writer().present => return Err(self.gone(NOBODY)),
            Err(ChannelError::Nothing) => return Err(self.gone("the router has not published anything yet")),
            Err(why) => return Err(self.gone(&why.to_string())),
        };
        let block = self.decoder.decode(&self.block, number).map_err(|why| self.gone(&why.to_string()))?;
        let router = Router { pid: block.pid, started_ns: block.started_ns };
        let another = self.router != Router::default() && self.router != router;
        if another || !self.reader.writer().present {
            return Err(Gone::Ended);
        }
        (self.router, self.interval, self.last) = (router, Duration::from_nanos(block.interval_ns), number);
        match block.content {
            Content::Reading(reading) => Ok(Reading { number: self.before + number, ..reading }),
            Content::Ended => Err(Gone::Ended),
            Content::TooLong(bytes) => {
                Err(self.gone(&format!("the statistics do not fit: {}", stats::too_long(bytes, None))))
            }
        }
    }

    fn gone(&self, why: &str) -> Gone {
        Gone::Silenced { name: self.name.clone(), why: why.to_owned() }
    }

    /// Goes on with another supervisor's domain, once the router publishes there.
    fn follow(&mut self) {
        if self.node.as_ref().is_some_and(|node| !node.is_served())
            && let Ok((node, reader)) = client::channel::block_reader(&self.name)
            && reader.writer().present
            && reader.number().is_ok_and(|number| number > 0)
        {
            self.go_on(node, reader);
        }
    }

    fn go_on(&mut self, node: Option<Node>, reader: BlockReader) {
        self.before += std::mem::take(&mut self.last);
        (self.node, self.reader) = (node, reader);
    }
}

const NOBODY: &str = "no router publishes there; it has ended, or was started with --stats none";
