// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks: one writer, any number of readers who get the newest whole, in sealed memory and in a file.

use std::sync::atomic::{AtomicBool, Ordering};

use junctor_icc::{
    AttachError, BlockReader, BlockWriter, ChannelError, Domain, Endpoint, FileRegion, NodeId, Peer,
};

const ID: NodeId = NodeId::new(7, 1);
const LONGEST: usize = 1000;

fn endpoints() -> [Endpoint; 2] {
    [Endpoint::blocks(1, "load", LONGEST as u32), Endpoint::messages(2, "commands", 200, 4)]
}

fn file() -> (tempfile::NamedTempFile, FileRegion) {
    let file =
        tempfile::NamedTempFile::new_in("/dev/shm").or_else(|_| tempfile::NamedTempFile::new()).unwrap();
    let size = FileRegion::bytes(&endpoints()).unwrap();
    let region = FileRegion::make(file.path(), size, ID, &endpoints()).unwrap();
    (file, region)
}

/// Blocks of all lengths go across, and only the newest.
fn talk(mut writer: BlockWriter, mut readers: [BlockReader; 2]) {
    let mut block = vec![1, 2, 3];
    assert_eq!((readers[0].read(&mut block), readers[0].number()), (Err(ChannelError::Nothing), Ok(0)));
    assert_eq!(writer.longest(), LONGEST);
    for (number, length) in (1..).zip([0, 1, 7, 8, 9, 999, LONGEST, 3]) {
        let sent: Vec<u8> = (0..length).map(|at| (at ^ number) as u8).collect();
        writer.publish(&sent).unwrap();
        for reader in &mut readers {
            assert_eq!(reader.number(), Ok(number as u64));
            assert_eq!((reader.read(&mut block), &block), (Ok(number as u64), &sent));
        }
    }
    let why = ChannelError::TooLong { bytes: LONGEST + 1, longest: LONGEST };
    assert_eq!(writer.publish(&[0; LONGEST + 1]), Err(why));
    assert_eq!((readers[0].read(&mut block), block.len()), (Ok(8), 3), "the block before stays");
    assert!(readers[0].writer().present);
    writer.give_up();
    assert_eq!(readers[1].read(&mut block), Err(ChannelError::GivenUp));
    assert_eq!(readers[1].number(), Err(ChannelError::GivenUp));
}

#[test]
fn readers_get_the_newest_whole() {
    let domain = Domain::serve(ID, &endpoints(), None).unwrap();
    let node = domain.node(2).unwrap();
    let readers = [node.block_reader("load").unwrap(), node.block_reader("1").unwrap()];
    assert_eq!(readers[0].writer(), Peer { present: false, attached: 0 });
    let writer = node.block_writer("load").unwrap();
    assert!(matches!(node.block_writer("load"), Err(AttachError::Busy { .. })), "one writer at a time");
    talk(writer, readers);
    let why = node.counter_reader("load").unwrap_err().to_string();
    assert_eq!(why, "endpoint 'load' carries blocks, not counters");
    assert!(node.block_writer("commands").is_err());
    let (_file, region) = file();
    let readers = [region.block_reader("load").unwrap(), region.block_reader("1").unwrap()];
    talk(region.block_writer("load").unwrap(), readers);
}

#[test]
fn the_next_writer_goes_on_with_the_numbers() {
    let domain = Domain::serve(ID, &endpoints(), None).unwrap();
    let node = domain.node(2).unwrap();
    let mut reader = node.block_reader("load").unwrap();
    let mut block = Vec::new();
    for number in 1..5u8 {
        let mut writer = node.block_writer("load").unwrap();
        assert_eq!(reader.writer(), Peer { present: true, attached: number.into() });
        writer.publish(&[number; 20]).unwrap();
        drop(writer);
        // The seat is free once the server has heard it.
        while reader.writer().present {
            std::thread::yield_now();
        }
        assert_eq!((reader.read(&mut block), &block), (Ok(number.into()), &vec![number; 20]));
    }
}

#[test]
fn readers_never_see_two_blocks_in_one() {
    let (_file, region) = file();
    let mut writer = region.block_writer("load").unwrap();
    let over = AtomicBool::new(false);
    let read = || {
        let (mut reader, mut block, mut last) = (region.block_reader("load").unwrap(), Vec::new(), 0);
        while !over.load(Ordering::Relaxed) || last == 0 {
            match reader.read(&mut block) {
                Ok(number) => {
                    assert!(number >= last && block.len() == 1 + number as usize * 31 % LONGEST);
                    assert!(block.iter().all(|byte| *byte == number as u8), "{number}");
                    last = number;
                }
                Err(why) => {
                    assert!(matches!(why, ChannelError::Nothing | ChannelError::Overtaken(_)), "{why}");
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        for number in 1..20_000usize {
            writer.publish(&vec![number as u8; 1 + number * 31 % LONGEST]).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}
