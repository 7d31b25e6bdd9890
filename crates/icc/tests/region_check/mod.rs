// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the fuzz target `icc_region` and its corpus' replay share: bytes as an adversarial peer, who writes to a region while this side uses it.
//!
//! ```text
//!  u16 length | so many bytes, which replace the region's first ones | steps of 4 bytes: what, where (u16), value
//! ```
//! Blocks lie in a region of their own, whose first bytes are replaced, too. Steps from 240 on are about them.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use junctor_icc::{
    BlockReader, BlockWriter, CounterReader, CounterWriter, Endpoint, FileRegion, NodeId, Note,
    PacketReceiver, PacketSender, Receiver, ScalarReceiver, ScalarSender, Sender, Width,
};

const LONGEST: usize = 200;

/// Ends of one region, those that could be attached.
#[derive(Default)]
struct Ends {
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    scalars: Option<ScalarSender>,
    taker: Option<ScalarReceiver>,
    writer: Option<CounterWriter>,
    reader: Option<CounterReader>,
    lender: Option<PacketSender>,
    borrower: Option<PacketReceiver>,
}

impl Ends {
    fn attach(&mut self, region: &FileRegion) {
        // By number, independent of the present names.
        self.sender = region.sender("1").ok();
        self.receiver = region.receiver("1").ok();
        self.scalars = region.scalar_sender("2").ok();
        self.taker = region.scalar_receiver("2").ok();
        self.writer = region.counter_writer("3").ok();
        self.reader = region.counter_reader("3").ok();
        self.lender = region.packet_sender("4").ok();
        self.borrower = region.packet_receiver("4").ok();
    }
}

/// A region in a file that others write to.
struct Hostile {
    file: tempfile::NamedTempFile,
    size: usize,
}

impl Hostile {
    fn new(endpoints: &[Endpoint]) -> Hostile {
        let file =
            tempfile::NamedTempFile::new_in("/dev/shm").or_else(|_| tempfile::NamedTempFile::new()).unwrap();
        let size = FileRegion::bytes(endpoints).unwrap();
        drop(FileRegion::make(file.path(), size, NodeId::new(1, 1), endpoints).unwrap());
        Hostile { file, size }
    }

    /// Replaces the first bytes; the region as it is then, if it is one.
    fn with(&self, first: &[u8]) -> Option<FileRegion> {
        self.file.as_file().write_all(&first[..first.len().min(self.size)]).unwrap();
        FileRegion::open(self.file.path(), self.size).ok()
    }

    /// Replaces a word.
    fn write(&self, at: u16, value: u8) {
        let word = match value >> 6 {
            0 => u64::from(value),
            1 => u64::MAX - u64::from(value & 63),
            2 => u64::from(value & 63) << 32 | 8,
            _ => u64::from(value & 7) << 32 | u64::from(value >> 3 & 7) << 6,
        };
        let at = usize::from(at) * 8 % (self.size & !7);
        self.file.as_file().write_all_at(&word.to_ne_bytes(), at as u64).unwrap();
    }
}

/// The ends of an endpoint of blocks.
struct Blocks {
    hostile: Hostile,
    region: Option<FileRegion>,
    writer: Option<BlockWriter>,
    reader: Option<BlockReader>,
}

impl Blocks {
    fn new(first: &[u8]) -> Blocks {
        let hostile = Hostile::new(&[Endpoint::blocks(5, "blocks", LONGEST as u32)]);
        let region = hostile.with(first);
        let mut blocks = Blocks { hostile, region, writer: None, reader: None };
        blocks.attach();
        blocks
    }

    fn attach(&mut self) {
        self.writer = self.region.as_ref().and_then(|region| region.block_writer("5").ok());
        self.reader = self.region.as_ref().and_then(|region| region.block_reader("5").ok());
    }

    fn step(&mut self, what: u8, at: u16, value: u8) -> usize {
        match what % 4 {
            0 => self.hostile.write(at, value),
            1 => {
                _ = self.writer.as_mut().map(|end| end.publish(&[at as u8; 256][..usize::from(value)]));
            }
            2 => {
                let mut block = Vec::new();
                let got = self.reader.as_mut().map(|end| (end.number().is_ok(), end.read(&mut block)));
                // What the header says may be more than what this side made.
                assert!(block.len() <= 1 << 20);
                return usize::from(matches!(got, Some((true, Ok(_)))));
            }
            _ => self.attach(),
        }
        0
    }
}

/// Runs it; says how many messages, scalars, snapshots and blocks arrived.
pub fn check(data: &[u8]) -> usize {
    let endpoints = [
        Endpoint::messages(1, "messages", LONGEST as u32, 4),
        Endpoint::scalars(2, "scalars", Width::Bits16, 8),
        Endpoint::counters(3, "counters", 10),
        Endpoint::packets(4, "packets", LONGEST as u32, 4),
    ];
    let hostile = Hostile::new(&endpoints);
    let (length, rest) = data.split_at_checked(2).unwrap_or(([0; 2].as_slice(), &[]));
    let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(rest.len());
    let (first, steps) = rest.split_at(length);
    let (mut blocks, region) = (Blocks::new(first), hostile.with(first));
    let (mut ends, mut arrived) = (Ends::default(), 0);
    region.iter().for_each(|region| ends.attach(region));
    for step in steps.as_chunks::<4>().0 {
        let (at, value) = (u16::from_le_bytes([step[1], step[2]]), step[3]);
        arrived += match (step[0], &region) {
            (240.., _) => blocks.step(step[0], at, value),
            (_, Some(region)) => self::step(&mut ends, region, &hostile, step[0], at, value),
            (_, None) => 0,
        };
    }
    arrived
}

fn step(ends: &mut Ends, region: &FileRegion, hostile: &Hostile, what: u8, at: u16, value: u8) -> usize {
    let mut arrived = 0;
    match what % 14 {
        0 => hostile.write(at, value),
        1 => _ = ends.sender.as_mut().map(|end| end.send(&[value; 256][..usize::from(value)])),
        2 => {
            let mut buffer = [0; LONGEST];
            let got =
                ends.receiver.as_mut().map(|end| end.receive(&mut buffer[..usize::from(value).min(LONGEST)]));
            arrived += usize::from(matches!(got, Some(Ok(Some(_)))));
        }
        3 => {
            let each = |message: &[u8]| arrived += usize::from(message.len() <= 1 << 20);
            _ = ends.receiver.as_mut().map(|end| end.receive_many(value.into(), each));
        }
        4 => _ = ends.scalars.as_mut().map(|end| end.send(at.into())),
        5 => _ = ends.taker.as_mut().map(|end| end.receive_many(value.into(), |_| arrived += 1)),
        6 => _ = ends.writer.as_mut().map(|end| end.publish(&[u64::from(at); 10][..usize::from(value % 11)])),
        7 => {
            let mut counters = Vec::new();
            arrived +=
                usize::from(matches!(ends.reader.as_ref().map(|end| end.read(&mut counters)), Some(Ok(_))));
            assert!(counters.len() <= 1 << 20);
        }
        8 => ends.attach(region),
        10 => {
            _ = ends.lender.as_mut().map(|end| end.send(&[value; 256][..usize::from(value)], Note::default()))
        }
        11 => {
            let mut buffer = [0; LONGEST];
            let got =
                ends.borrower.as_mut().map(|end| end.receive(&mut buffer[..usize::from(value).min(LONGEST)]));
            arrived += usize::from(matches!(got, Some(Ok(Some((bytes, _)))) if bytes <= LONGEST));
        }
        12 => {
            let lent = [value; LONGEST][..usize::from(value).min(LONGEST)].to_vec();
            _ = ends.lender.as_mut().map(|end| {
                let taken = end.lend(at.into(), lent, Note::default());
                end.publish();
                taken.is_ok()
            });
        }
        13 => {
            _ = ends.lender.as_mut().map(|end| {
                let mut back = 0;
                _ = end.collect(|_| back += 1);
                end.recall(|_| back += 1);
                assert!(back <= 4, "more came back than there are cells");
            });
        }
        _ => _ = ends.receiver.as_mut().map(|end| end.wait(Some(Duration::ZERO))),
    }
    arrived
}
