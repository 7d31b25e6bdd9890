// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the fuzz target `icc_region` and its corpus' replay share: bytes as a hostile peer, who writes to a region while this side uses it.
//!
//! ```text
//!  u16 length | so many bytes, which replace the region's first ones | steps of 4 bytes: what, where (u16), value
//! ```

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use junctor_icc::{
    CounterReader, CounterWriter, Endpoint, FileRegion, NodeId, Note, PacketReceiver, PacketSender, Receiver,
    ScalarReceiver, ScalarSender, Sender, Width,
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
        // By number, whatever the names are now.
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

/// Runs it; says how many messages, scalars and snapshots arrived.
pub fn check(data: &[u8]) -> usize {
    let endpoints = [
        Endpoint::messages(1, "messages", LONGEST as u32, 4),
        Endpoint::scalars(2, "scalars", Width::Bits16, 8),
        Endpoint::counters(3, "counters", 10),
        Endpoint::packets(4, "packets", LONGEST as u32, 4),
    ];
    let file =
        tempfile::NamedTempFile::new_in("/dev/shm").or_else(|_| tempfile::NamedTempFile::new()).unwrap();
    let size = FileRegion::bytes(&endpoints).unwrap();
    drop(FileRegion::make(file.path(), size, NodeId::new(1, 1), &endpoints).unwrap());
    let (length, rest) = data.split_at_checked(2).unwrap_or(([0; 2].as_slice(), &[]));
    let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(rest.len());
    let (first, steps) = rest.split_at(length);
    file.as_file().write_all(&first[..first.len().min(size)]).unwrap();
    let Ok(region) = FileRegion::open(file.path(), size) else { return 0 };
    let (mut ends, mut arrived) = (Ends::default(), 0);
    ends.attach(&region);
    for step in steps.as_chunks::<4>().0 {
        let (at, value) = (u16::from_le_bytes([step[1], step[2]]), step[3]);
        arrived += self::step(&mut ends, &region, file.as_file(), size, step[0], at, value);
    }
    arrived
}

fn step(
    ends: &mut Ends,
    region: &FileRegion,
    file: &std::fs::File,
    size: usize,
    what: u8,
    at: u16,
    value: u8,
) -> usize {
    let mut arrived = 0;
    match what % 14 {
        0 => {
            let word = match value >> 6 {
                0 => u64::from(value),
                1 => u64::MAX - u64::from(value & 63),
                2 => u64::from(value & 63) << 32 | 8,
                _ => u64::from(value & 7) << 32 | u64::from(value >> 3 & 7) << 6,
            };
            let at = usize::from(at) * 8 % (size & !7);
            file.write_all_at(&word.to_ne_bytes(), at as u64).unwrap();
        }
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
