// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels of statistics, for programs in a guest. The machine's side of the guest reads each channel as any plane does, and copies the
//! newest block to the memory that both systems share. So the guest can do nothing to a router, or to what other planes read.
//!
//! ```text
//! junctor run -- block in sealed memory -- host == block in shared memory == junctor top in the guest
//! ```
//! Nothing rings between two systems: this side looks every 20 ms, which costs a load for each channel while nothing comes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use icc::{BlockReader, BlockWriter, ChannelError, FileRegion, Node, NodeId};

/// Time between looks.
const EVERY: Duration = Duration::from_millis(20);
/// Time between attempts to attach.
const PAUSE: Duration = Duration::from_millis(500);

/// One channel.
struct Copy {
    name: String,
    domain: PathBuf,
    region: FileRegion,
    from: Option<(Node, BlockReader)>,
    /// There while the router publishes: so the guest sees whether it does.
    to: Option<BlockWriter>,
    /// The number of the block that was copied last.
    last: u64,
    next_try: Instant,
    block: Vec<u8>,
}

/// Copies the blocks of these channels, from the domain to the region, until the process ends.
pub(super) fn copy(region: &FileRegion, domain: &Path, channels: impl Iterator<Item = String>) {
    let mut copies: Vec<Copy> = channels.map(|name| Copy::new(name, region, domain)).collect();
    if copies.is_empty() {
        return;
    }
    std::thread::spawn(move || {
        loop {
            copies.iter_mut().for_each(Copy::step);
            std::thread::sleep(EVERY);
        }
    });
}

impl Copy {
    fn new(name: String, region: &FileRegion, domain: &Path) -> Copy {
        Copy {
            name,
            domain: domain.to_owned(),
            region: region.clone(),
            from: None,
            to: None,
            last: 0,
            next_try: Instant::now(),
            block: Vec::new(),
        }
    }

    /// Copies a block, if another has come.
    fn step(&mut self) {
        self.attach();
        let Some((_, from)) = &mut self.from else {
            self.to = None;
            return;
        };
        match from.number() {
            Ok(number) if number == 0 || !from.writer().present => {
                self.to = None;
                return;
            }
            Ok(number) if number == self.last && self.to.is_some() => return,
            Ok(_) => {}
            Err(_) => {
                self.from = None;
                return;
            }
        }
        match from.read(&mut self.block) {
            Ok(number) => self.last = number,
            Err(ChannelError::Overtaken(_)) => return,
            Err(_) => {
                self.from = None;
                return;
            }
        }
        let to = match self.to.take() {
            Some(to) => Some(to),
            None => self.region.block_writer(&self.name).ok(),
        };
        // A guest that has damaged its memory has itself to blame; it gets no more.
        self.to = to.and_then(|mut to| to.publish(&self.block).is_ok().then_some(to));
    }

    /// Attaches if that is needed: also when another supervisor serves the domain, and the router publishes there.
    fn attach(&mut self) {
        let served = self.from.as_ref().is_some_and(|(node, _)| node.is_served());
        if served || Instant::now() < self.next_try {
            return;
        }
        self.next_try = Instant::now() + PAUSE;
        let next = Node::connect(&self.domain, NodeId::new(0, std::process::id()));
        let next = next.and_then(|node| node.block_reader(&self.name).map(|reader| (node, reader)));
        if let Ok(next) = next
            && (self.from.is_none() || next.1.writer().present)
        {
            (self.from, self.last) = (Some(next), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use icc::{Domain, Endpoint};

    /// Copies until something holds.
    fn until(copy: &mut Copy, what: &str, holds: impl Fn(&mut Copy) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds(copy) {
            assert!(Instant::now() < end, "{what}");
            copy.next_try = Instant::now();
            copy.step();
        }
    }

    #[test]
    fn a_guest_sees_what_the_router_publishes_and_whether_it_does() {
        let directory = tempfile::tempdir().unwrap();
        let (place, file) = (directory.path().join("domain"), directory.path().join("memory"));
        let endpoints = [Endpoint::blocks(3, "load", 100)];
        let bytes = FileRegion::bytes(&endpoints).unwrap();
        let region = FileRegion::make(&file, bytes, NodeId::new(1, 1), &endpoints).unwrap();
        let mut guest = FileRegion::open(&file, bytes).unwrap().block_reader("load").unwrap();
        let mut copy = Copy::new("load".to_owned(), &region, &place);
        copy.step();
        assert!(!guest.writer().present, "nobody serves the domain");
        let mut block = Vec::new();
        let serve = || Domain::serve(NodeId::new(1, 2), &endpoints, Some(&place)).unwrap();
        let mut domain = serve();
        for round in 1..4u8 {
            let mut router = domain.node(3).unwrap().block_writer("load").unwrap();
            router.publish(&[round; 50]).unwrap();
            until(&mut copy, "the block", |_| guest.number().unwrap() == 2 * u64::from(round) - 1);
            assert!(guest.writer().present);
            guest.read(&mut block).unwrap();
            assert_eq!(block, [round; 50]);
            // The server is replaced; the router goes on, and moves when it can.
            drop(domain);
            router.publish(&[round + 100; 20]).unwrap();
            until(&mut copy, "another block", |_| guest.number().unwrap() == 2 * u64::from(round));
            domain = serve();
            router.give_up();
            until(&mut copy, "nobody publishes", |_| !guest.writer().present);
            guest.read(&mut block).unwrap();
            assert_eq!(block, [round + 100; 20]);
        }
    }
}
