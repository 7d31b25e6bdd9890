// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints in a file that two sides map, as two operating systems do.

use std::time::Duration;

use junctor_icc::{AttachError, ChannelError, Endpoint, FileRegion, LayoutError, NodeId, Peer, Role, Width};

fn endpoints() -> [Endpoint; 3] {
    [
        Endpoint::messages(1, "commands", 200, 4),
        Endpoint::scalars(2, "credits", Width::Bits32, 8),
        Endpoint::counters(3, "statistics", 100),
    ]
}

const SIZE: usize = 64 << 10;
const ID: NodeId = NodeId::new(7, 1);

fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = dir.path().join("region");
    (dir, path)
}

#[test]
fn both_sides_see_the_same() {
    let (_dir, path) = place();
    assert!(FileRegion::bytes(&endpoints()).unwrap() <= SIZE);
    let here = FileRegion::make(&path, SIZE, ID, &endpoints()).unwrap();
    let there = FileRegion::open(&path, SIZE).unwrap();
    assert_eq!((there.node(), there.path()), (ID, &*path));
    let (mut sender, mut receiver) = (here.sender("commands").unwrap(), there.receiver("commands").unwrap());
    sender.send(b"hello").unwrap();
    assert_eq!(receiver.wait(Some(Duration::from_secs(60))), Ok(true));
    let mut buffer = [0; 200];
    assert_eq!((receiver.receive(&mut buffer), &buffer[..5]), (Ok(Some(5)), &b"hello"[..]));
    assert_eq!(receiver.wait(Some(Duration::ZERO)), Ok(false));
    assert!(receiver.fd().is_none(), "nothing can ring");
    let (mut send, mut take) = (there.scalar_sender("2").unwrap(), here.scalar_receiver("2").unwrap());
    send.send(5).unwrap();
    assert_eq!(take.receive(), Ok(Some(5)));
    let (mut writer, reader) =
        (here.counter_writer("statistics").unwrap(), there.counter_reader("statistics").unwrap());
    let mut counters = Vec::new();
    assert_eq!(reader.read(&mut counters), Err(ChannelError::Nothing));
    writer.publish(&[1, 2]).unwrap();
    assert_eq!((reader.read(&mut counters), counters), (Ok(1), vec![1, 2]));
}

#[test]
fn a_successor_takes_the_seat_and_the_heartbeat_shows_life() {
    let (_dir, path) = place();
    let here = FileRegion::make(&path, SIZE, ID, &endpoints()).unwrap();
    let there = FileRegion::open(&path, SIZE).unwrap();
    let mut receiver = here.receiver("commands").unwrap();
    assert_eq!(receiver.peer(), Peer { present: false, attached: 0 });
    let mut sender = there.sender("commands").unwrap();
    sender.send(b"first").unwrap();
    let before = receiver.peer_beat();
    sender.beat();
    assert_eq!((receiver.peer_beat(), receiver.peer()), (before + 1, Peer { present: true, attached: 1 }));
    receiver.beat();
    assert_eq!(sender.peer_beat(), 1);
    assert_eq!(here.seat("commands", Role::Sender), Ok((Peer { present: true, attached: 1 }, before + 1)));
    assert!(here.seat("nothing", Role::Sender).is_err());
    // Nobody says that it is dead; who restarts it knows.
    std::mem::forget(sender);
    let mut next = there.sender("commands").unwrap();
    assert_eq!(receiver.peer(), Peer { present: true, attached: 2 });
    next.send(b"second").unwrap();
    let mut got = Vec::new();
    assert_eq!(receiver.receive_many(9, |message| got.push(message.to_vec())), Ok(2));
    assert_eq!(got, [&b"first"[..], b"second"]);
    drop(next);
    assert_eq!(receiver.peer(), Peer { present: false, attached: 2 });
}

#[test]
fn an_old_region_is_made_anew_with_another_generation() {
    let (_dir, path) = place();
    drop(FileRegion::make(&path, SIZE, ID, &endpoints()).unwrap());
    let first = std::fs::read(&path).unwrap();
    let again = FileRegion::make(&path, SIZE, NodeId::new(7, 2), &endpoints()[2..]).unwrap();
    let second = std::fs::read(&path).unwrap();
    assert_ne!(first[32..40], second[32..40]);
    assert!(matches!(again.sender("commands"), Err(AttachError::Layout(LayoutError::NoEndpoint(..)))));
}

#[test]
fn files_that_will_not_do_are_refused() {
    let (_dir, path) = place();
    let why = |result: Result<FileRegion, AttachError>| result.unwrap_err().to_string();
    let small = FileRegion::make(&path, 4096, ID, &endpoints());
    assert!(why(small).contains("the endpoints need"));
    assert_eq!(why(FileRegion::open(&path, SIZE)), format!("a file of 4096 bytes, not {SIZE}"));
    assert!(why(FileRegion::open(&path, 4096)).contains("no Junctor communication region"));
    std::fs::remove_file(&path).unwrap();
    assert!(why(FileRegion::open(&path, SIZE)).contains("No such file"));
}

/// Any damage to the file while both sides use it: errors or wrong items, and no more than that.
#[test]
fn damage_while_in_use_does_no_harm() {
    use std::os::unix::fs::FileExt;
    let (_dir, path) = place();
    let mut seed = 7u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 24
    };
    for _ in 0..200 {
        let here = FileRegion::make(&path, SIZE, ID, &endpoints()).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let size = FileRegion::bytes(&endpoints()).unwrap() as u64;
        let (mut sender, mut receiver) = (here.sender("1").unwrap(), here.receiver("1").unwrap());
        let (mut send, mut take) = (here.scalar_sender("2").unwrap(), here.scalar_receiver("2").unwrap());
        let (mut writer, reader) = (here.counter_writer("3").unwrap(), here.counter_reader("3").unwrap());
        for _ in 0..100 {
            // Mostly whole words of small numbers, as headers and positions are.
            let (at, value) = (random() % (size - 8), random() % 4);
            let bytes = if value == 0 { random() } else { (value << 32) | (value * 60) };
            file.write_all_at(&bytes.to_ne_bytes(), if value == 3 { at } else { at & !7 }).unwrap();
            let _ = (sender.send(&[1; 100]), send.send(9), writer.publish(&[5; 50]));
            let _ = receiver.receive_many(3, |message| assert!(message.len() <= 200));
            let _ = (receiver.wait(Some(Duration::ZERO)), take.receive(), reader.read(&mut Vec::new()));
            let _ = (
                here.sender("1").map(drop),
                here.receiver("1").map(drop),
                FileRegion::open(&path, SIZE).map(drop),
            );
        }
    }
}
